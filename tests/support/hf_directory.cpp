#include "tests/support/hf_directory.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "model/hf_names.h"
#include "model/safetensors.h"
#include "model/special_tokens.h"
#include "tests/support/tiny_vocabulary.h"

namespace winnow {
namespace {

using Json = nlohmann::json;

// Within a head, GGUF's row 2 i + s is row i of half s.
std::vector<uint8_t> HalfSplit(const GgufTensor& tensor, int64_t head_dim) {
  std::vector<uint8_t> bytes(static_cast<size_t>(tensor.num_bytes));
  const int64_t row_bytes = BytesOf(tensor.dtype, tensor.shape[0]);
  for (int64_t row = 0; row < tensor.shape[1]; ++row) {
    const int64_t head = row / head_dim, r = row % head_dim;
    const int64_t from = head * head_dim + 2 * (r % (head_dim / 2)) + r / (head_dim / 2);
    std::memcpy(&bytes[size_t(row * row_bytes)], tensor.data + from * row_bytes, size_t(row_bytes));
  }
  return bytes;
}

std::string ShardName(int shard, int num_shards) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", shard + 1, num_shards);
  return name;
}

Json TokenizerJson(const TinyVocabulary& vocabulary) {
  Json vocab = Json::object(), added = Json::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.types[id] == int32_t(TokenType::kNormal)) {
      vocab[vocabulary.tokens[id]] = id;
    } else {
      added.push_back({{"id", id}, {"content", vocabulary.tokens[id]}, {"special", true}, {"normalized", false}});
    }
  }
  const Json rules = Json::array({{{"type", "Digits"}, {"individual_digits", true}},
                                  {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}});
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", rules}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", vocabulary.merges}}}};
}

}  // namespace

HfDirectory::HfDirectory(const TinyModelSpec& spec) {
  const TinyModel model(spec);
  vocab_size_ = model.config.vocab_size;
  config = {{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"hidden_size", spec.hidden_size()},
            {"intermediate_size", spec.ffn_size},
            {"num_hidden_layers", spec.num_layers},
            {"num_attention_heads", spec.num_query_heads},
            {"num_key_value_heads", spec.num_kv_heads},
            {"head_dim", spec.head_dim},
            {"hidden_act", "silu"},
            {"max_position_embeddings", spec.context},
            {"rms_norm_eps", 1e-5},
            {"rope_theta", 10000.0},
            {"tie_word_embeddings", spec.tied_embeddings},
            {"torch_dtype", spec.weights == DType::kBF16 ? "bfloat16" : "float32"},
            {"vocab_size", vocab_size_}};
  generation_config = Json::object();
  for (const GgufTensor& tensor : model.file.gguf_tensors()) {
    const bool rotated = tensor.name.ends_with("attn_q.weight") || tensor.name.ends_with("attn_k.weight");
    tensors[HfNameOf(tensor.name)] = {
        tensor.dtype,
        {tensor.shape.rbegin(), tensor.shape.rend()},
        rotated ? HalfSplit(tensor, spec.head_dim) : std::vector<uint8_t>(tensor.data, tensor.data + tensor.num_bytes)};
  }
}

void HfDirectory::Write(const std::string& directory, int num_shards) const {
  std::filesystem::create_directories(directory);
  WriteText(directory + "/config.json", config.dump(1));
  if (!generation_config.empty()) WriteText(directory + "/generation_config.json", generation_config.dump(1));
  if (add_tokenizer) {
    const TinyVocabulary vocabulary;
    WriteText(directory + "/tokenizer.json", TokenizerJson(vocabulary).dump());
    WriteText(directory + "/tokenizer_config.json",
              Json{{"bos_token", vocabulary.tokens[vocabulary.bos_id]},
                   {"eos_token", {{"content", vocabulary.tokens[vocabulary.eos_id]}}},
                   {"chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}"}}
                  .dump());
  }
  std::vector<std::map<std::string, SafetensorsTensor>> shards(static_cast<size_t>(num_shards));
  Json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", Json::object()}};
  size_t next = 0, total_bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    WINNOW_CHECK(tensor.dtype == DType::kF32 || tensor.dtype == DType::kBF16);
    const int shard = int(next++ % size_t(num_shards));
    shards[size_t(shard)][name] = {tensor.dtype == DType::kF32 ? SafetensorsType::kF32 : SafetensorsType::kBF16,
                                   tensor.shape, tensor.bytes};
    index["weight_map"][name] = ShardName(shard, num_shards);
    total_bytes += tensor.bytes.size();
  }
  index["metadata"]["total_size"] = total_bytes;
  if (num_shards > 1) WriteText(directory + "/model.safetensors.index.json", index.dump());
  for (int shard = 0; shard < num_shards; ++shard) {
    const std::string name = num_shards == 1 ? "model.safetensors" : ShardName(shard, num_shards);
    WINNOW_CHECK(WriteSafetensors(directory + "/" + name, {{"format", "pt"}}, shards[size_t(shard)]).ok());
  }
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  WINNOW_CHECK(!file.fail());
}

}  // namespace winnow
