#include "launch/inspect_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/printable_text.h"
#include "dist/shard.h"
#include "launch/number_text.h"
#include "model/model_config.h"
#include "model/tokenizer.h"
#include "model/weights.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// A metadata value as JSON; long arrays only by their length.
Json ValueJson(const GgufFile& file, const std::string& key, const GgufValue& value) {
  if (value.type == GgufType::kArray) {
    return fmt::format("array of {} {}", value.count, Name(value.element_type));
  }
  if (auto text = file.GetString(key); text.ok()) return Json(std::string(*text));
  if (auto number = file.GetUint(key); number.ok()) return Json(*number);
  if (auto flag = file.GetBool(key); flag.ok()) return Json(*flag);
  if (auto number = file.GetFloat(key); number.ok()) return Json(*number);
  return fmt::format("a {}", Name(value.type));
}

std::vector<int> ValidRankCounts(const ModelConfig& config) {
  std::vector<int> counts;
  for (int ranks = 1; ranks <= config.num_query_heads; ++ranks) {
    if (MakeShardPlan(ShardDimsOf(config), ranks).ok()) counts.push_back(ranks);
  }
  return counts;
}

Json Describe(const GgufFile& file) {
  Json json = {{"path", file.path()},
               {"format", fmt::format("GGUF v{}", file.version())},
               {"file_bytes", file.num_file_bytes()}};
  for (const auto& [key, value] : file.metadata()) json["metadata"][key] = ValueJson(file, key, value);
  std::map<std::string, std::pair<int64_t, int64_t>> types;  // tensors, bytes
  for (const GgufTensor& tensor : file.gguf_tensors()) {
    auto& [count, bytes] = types[std::string(Name(tensor.dtype))];
    ++count;
    bytes += tensor.num_bytes;
    json["tensors"].push_back(
        {{"name", tensor.name}, {"dtype", Name(tensor.dtype)}, {"shape", tensor.shape}, {"bytes", tensor.num_bytes}});
  }
  for (const auto& [name, sums] : types) {
    json["tensor_types"][name] = {{"tensors", sums.first}, {"bytes", sums.second}};
  }
  return json;
}

void AddConfig(const ModelConfig& config, Json* json) {
  (*json)["config"] = {{"architecture", config.architecture},   {"name", config.name},
                       {"layers", config.num_layers},           {"hidden_size", config.hidden_size},
                       {"query_heads", config.num_query_heads}, {"kv_heads", config.num_kv_heads},
                       {"head_dim", config.head_dim},           {"ffn_size", config.ffn_size},
                       {"vocab_size", config.vocab_size},       {"context", config.max_context},
                       {"rope_theta", config.rope_theta},       {"tied_embeddings", config.tied_embeddings}};
  // K and V of one token over all layers and KV heads, two bytes an element (bf16).
  (*json)["kv_bytes_per_token"] = int64_t(4) * config.num_layers * config.num_kv_heads * config.head_dim;
  (*json)["valid_rank_counts"] = ValidRankCounts(config);
}

void PrintText(const Json& json) {
  const auto bytes = [](int64_t count) { return fmt::format("{} bytes ({})", Grouped(count), BinarySize(count)); };
  fmt::print("{}  {}, {}\n", json["path"].get<std::string>(), json["format"].get<std::string>(),
             bytes(json["file_bytes"].get<int64_t>()));
  if (json.contains("metadata")) {
    fmt::print("metadata\n");
    for (const auto& [key, value] : json["metadata"].items()) {
      std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      if (text.size() > 100) text = text.substr(0, 97) + "...";
      fmt::print("  {:<44} {}\n", key, Printable(text));
    }
  }
  if (json.contains("tensor_types")) {
    fmt::print("tensors\n");
    for (const auto& [name, sums] : json["tensor_types"].items()) {
      const int64_t size = sums["bytes"].get<int64_t>();
      fmt::print("  {:<8} {:>5} tensors {:>17} bytes {:>10}\n", name, Grouped(sums["tensors"].get<int64_t>()),
                 Grouped(size), BinarySize(size));
    }
  }
  if (!json.contains("config")) return;
  fmt::print("configuration\n");
  for (const auto& [key, value] : json["config"].items()) {
    fmt::print("  {:<20} {}\n", key,
               value.is_number_integer() ? Grouped(value.get<int64_t>()) : Printable(value.dump()));
  }
  const int64_t token_bytes = json["kv_bytes_per_token"].get<int64_t>();
  const int64_t context_bytes = token_bytes * json["config"]["context"].get<int64_t>();
  fmt::print("  {:<20} {} (bf16); a full cache of the whole context takes {}\n", "kv_bytes_per_token",
             Grouped(token_bytes), BinarySize(context_bytes));
  fmt::print("  {:<20} {}\n", "valid_rank_counts", json["valid_rank_counts"].dump());
}

}  // namespace

Status InspectFile(const std::string& path, bool json_output) {
  WINNOW_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  Json json = Describe(file);
  const auto config = ReadModelConfig(file);
  if (config.ok()) AddConfig(*config, &json);
  const auto tokenizer = Tokenizer::FromGguf(file);
  const Status status = !config.ok() ? config.status() : tokenizer.status();
  json["runs_on_winnow"] = status.ok();
  if (json_output) {
    // Foreign bytes in metadata must not break the output: they are replaced.
    fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    PrintText(json);
    fmt::print("runs on winnow: {}\n", status.ok() ? "yes" : "no");
  }
  return status;
}

}  // namespace winnow
