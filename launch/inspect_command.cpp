#include "launch/inspect_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <vector>

#include "base/printable_text.h"
#include "dist/shard.h"
#include "launch/number_text.h"
#include "model/checkpoint.h"
#include "model/gguf.h"
#include "model/peft_adapter.h"
#include "model/sharded_safetensors.h"
#include "model/strict_json.h"
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

// Tensors by name, and how much there is of each type. Shapes are GGUF's: columns first.
class TensorList {
 public:
  void Add(const std::string& name, std::string_view dtype, const std::vector<int64_t>& shape, int64_t num_bytes) {
    auto& [count, bytes] = types_[std::string(dtype)];
    ++count;
    bytes += num_bytes;
    list_.push_back({{"name", name}, {"dtype", dtype}, {"shape", shape}, {"bytes", num_bytes}});
  }
  void AddTo(Json* json) const {
    if (list_.empty()) return;
    (*json)["tensors"] = list_;
    for (const auto& [name, sums] : types_) {
      (*json)["tensor_types"][name] = {{"tensors", sums.first}, {"bytes", sums.second}};
    }
  }

 private:
  Json list_ = Json::array();
  std::map<std::string, std::pair<int64_t, int64_t>> types_;  // tensors, bytes
};

Json Describe(const GgufFile& file) {
  Json json = {{"path", file.path()},
               {"format", fmt::format("GGUF v{}", file.version())},
               {"file_bytes", file.num_file_bytes()}};
  for (const auto& [key, value] : file.metadata()) json["metadata"][key] = ValueJson(file, key, value);
  TensorList tensors;
  for (const GgufTensor& tensor : file.gguf_tensors()) {
    tensors.Add(tensor.name, Name(tensor.dtype), tensor.shape, tensor.num_bytes);
  }
  tensors.AddTo(&json);
  return json;
}

// Everything that can be read of a directory, winnow's opinion aside.
Json DescribeDirectory(const std::string& directory) {
  Json json = {{"path", directory}, {"format", "Hugging Face directory"}, {"file_bytes", 0}};
  if (const auto config = ReadStrictJson(directory + "/config.json"); config.ok() && config->is_object()) {
    for (const auto& [key, value] : config->items()) json["metadata"][key] = value;
  }
  const auto files = ShardedSafetensors::Open(directory);
  if (!files.ok()) return json;
  json["file_bytes"] = files->num_file_bytes();
  TensorList tensors;
  for (const auto& [name, entry] : files->tensors()) {
    const SafetensorsTensor& tensor = *entry.tensor;
    tensors.Add(name, Name(tensor.type), {tensor.shape.rbegin(), tensor.shape.rend()}, int64_t(tensor.bytes.size()));
  }
  tensors.AddTo(&json);
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

Json Describe(const PeftAdapter& adapter, const std::string& path) {
  Json json = {{"path", path}, {"format", "PEFT adapter (LoRA)"}, {"file_bytes", adapter.num_file_bytes()}};
  Json& config =
      json["adapter"] = {{"rank", adapter.rank()}, {"scale", adapter.scale()}, {"base_model", adapter.base_model()}};
  for (const auto& [module, matrix] : adapter.modules()) config["target_modules"].push_back(module);
  config["matrices"] = adapter.updates().size();
  return json;
}

Status InspectAdapter(const std::string& path, const std::optional<std::string>& model_path, bool json_output) {
  WINNOW_ASSIGN_OR_RETURN(const PeftAdapter adapter, PeftAdapter::Open(path));
  Json json = Describe(adapter, path);
  Status status = OkStatus();
  if (model_path) {
    WINNOW_ASSIGN_OR_RETURN(const auto model, Checkpoint::Open(*model_path));
    status = adapter.CheckFits(model->config());
    json["model"] = *model_path;
    json["fits"] = status.ok();
  }
  if (json_output) {
    fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
    return status;
  }
  fmt::print("{}  {}, {} bytes\n", path, json["format"].get<std::string>(), Grouped(int64_t(adapter.num_file_bytes())));
  for (const auto& [key, value] : json["adapter"].items()) fmt::print("  {:<20} {}\n", key, Printable(value.dump()));
  if (model_path) fmt::print("fits {}: {}\n", *model_path, status.ok() ? "yes" : "no");
  return status;
}

}  // namespace

Status InspectFile(const std::string& path, const std::optional<std::string>& model_path, bool json_output) {
  if (PeftAdapter::IsAdapter(path)) return InspectAdapter(path, model_path, json_output);
  if (model_path) return InvalidArgument("--model: expected an adapter's directory to check against it, found " + path);
  std::error_code error;  // what cannot be asked for is reported by whoever opens it
  const bool is_config = path.ends_with(".json");
  Json json;
  if (std::filesystem::is_directory(path, error)) {
    if (!std::filesystem::exists(path + "/config.json", error)) {
      return BadFile(path + ": expected a model's directory with a config.json, found none");
    }
    json = DescribeDirectory(path);
  } else if (is_config) {
    const uintmax_t bytes = std::filesystem::file_size(path, error);
    json = {{"path", path}, {"format", "config.json, without weights"}, {"file_bytes", error ? 0 : int64_t(bytes)}};
  } else {
    WINNOW_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
    json = Describe(file);
  }
  const auto model = is_config ? Checkpoint::OpenDummy(path) : Checkpoint::Open(path);
  if (model.ok()) AddConfig((*model)->config(), &json);
  const Status status = model.ok() ? (*model)->LoadTokenizer().status() : model.status();
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
