#include "model/model_config.h"

#include <array>
#include <limits>

#include "model/gguf_rope.h"
#include "model/model_tensors.h"
#include "model/utf8_stream.h"

namespace winnow {
namespace {

// Every key of the architecture that winnow understands, without "llama." or the like in front. Any other key might
// change the mathematics, so it is refused by name.
constexpr std::array<std::string_view, 28> kKnownKeys = {
    "vocab_size",
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "tensor_data_layout",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "rope.dimension_count",
    // Of rotary position embedding, read in model/gguf_rope.cpp.
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.yarn_log_multiplier",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    // Accepted only with the value that means "not used".
    "attention.causal",
    "attention.sliding_window",
    "expert_count",
    "expert_used_count",
};

// What the architectures differ in.
struct Architecture {
  std::string_view name;
  bool qkv_bias, qk_norm;
  bool permuted_qk_rows;  // by GGUF's converter
};
constexpr std::array<Architecture, 3> kArchitectures = {{
    {"llama", false, false, true},
    {"qwen2", true, false, false},
    {"qwen3", false, true, false},
}};

class ConfigReader {
 public:
  explicit ConfigReader(const GgufFile& file) : file_(file) {}

  Result<ModelConfig> Read() {
    ModelConfig config;
    WINNOW_RETURN_IF_ERROR(ReadArchitecture(&config));
    if (file_.Has("general.name")) {
      WINNOW_ASSIGN_OR_RETURN(const std::string_view name, file_.GetString("general.name"));
      Utf8Stream valid;  // results carry the name as JSON, which holds no other bytes
      config.name = valid.Push(name);
      config.name += valid.Finish();
    }
    WINNOW_RETURN_IF_ERROR(CheckKeysAreKnown());
    WINNOW_RETURN_IF_ERROR(ReadSizes(&config));
    WINNOW_RETURN_IF_ERROR(CheckUnusedFeatures(config));
    WINNOW_RETURN_IF_ERROR(ReadEpsilon(&config));
    WINNOW_RETURN_IF_ERROR(ReadGgufRope(file_, prefix_, &config));
    WINNOW_RETURN_IF_ERROR(ReadVocabulary(&config));
    WINNOW_RETURN_IF_ERROR(CheckModelTensors(file_, &config));
    return config;
  }

 private:
  std::string Key(std::string_view name) const { return prefix_ + std::string(name); }

  Status ReadArchitecture(ModelConfig* config) {
    WINNOW_ASSIGN_OR_RETURN(const std::string_view name, file_.GetString("general.architecture"));
    for (const Architecture& architecture : kArchitectures) {
      if (architecture.name != name) continue;
      prefix_ = std::string(name) + ".";
      config->architecture = name;
      config->qkv_bias = architecture.qkv_bias;
      config->qk_norm = architecture.qk_norm;
      config->permuted_qk_rows = architecture.permuted_qk_rows;
      return OkStatus();
    }
    return file_.Bad("general.architecture: expected llama (Mistral's too), qwen2 or qwen3, found " +
                     std::string(name));
  }

  Status CheckKeysAreKnown() const {
    for (const auto& [key, value] : file_.metadata()) {
      if (!key.starts_with(prefix_)) continue;
      const std::string_view name = std::string_view(key).substr(prefix_.size());
      bool known = false;
      for (const std::string_view candidate : kKnownKeys) known = known || candidate == name;
      if (!known) return file_.Bad(key + ": winnow does not support this property of a model");
    }
    return OkStatus();
  }

  // `key` may be missing or must be `neutral`.
  Status ExpectNeutralUint(std::string_view name, uint64_t neutral) const {
    const std::string key = Key(name);
    if (!file_.Has(key)) return OkStatus();
    WINNOW_ASSIGN_OR_RETURN(const uint64_t value, file_.GetUint(key));
    if (value == neutral) return OkStatus();
    return file_.Bad(key + ": expected none or " + std::to_string(neutral) + ", found " + std::to_string(value));
  }

  Status CheckUnusedFeatures(const ModelConfig& config) const {
    // A window that is not shorter than the context hides nothing.
    if (const std::string key = Key("attention.sliding_window"); file_.Has(key)) {
      WINNOW_ASSIGN_OR_RETURN(const uint64_t window, file_.GetUint(key));
      if (window != 0 && window < uint64_t(config.max_context)) {
        return file_.Bad(key + ": expected none or 0 (winnow attends to all earlier tokens), found " +
                         std::to_string(window));
      }
    }
    WINNOW_RETURN_IF_ERROR(ExpectNeutralUint("expert_count", 0));
    WINNOW_RETURN_IF_ERROR(ExpectNeutralUint("expert_used_count", 0));
    if (const std::string key = Key("attention.causal"); file_.Has(key)) {
      WINNOW_ASSIGN_OR_RETURN(const bool causal, file_.GetBool(key));
      if (!causal) return file_.Bad(key + ": expected causal attention, found false");
    }
    return OkStatus();
  }

  // 1 <= value <= `max`.
  Result<int> ReadSize(std::string_view name, int max = std::numeric_limits<int>::max()) const {
    WINNOW_ASSIGN_OR_RETURN(const uint64_t value, file_.GetUint(Key(name)));
    if (value < 1 || value > uint64_t(max)) {
      return file_.Bad(Key(name) + ": expected 1 to " + std::to_string(max) + ", found " + std::to_string(value));
    }
    return int(value);
  }
  Result<int> ReadSizeOr(std::string_view name, int fallback) const {
    return file_.Has(Key(name)) ? ReadSize(name) : Result<int>(fallback);
  }
  Status ExpectMultiple(std::string_view name, int value, int factor) const {
    if (value % factor == 0) return OkStatus();
    return file_.Bad(Key(name) + ": expected a multiple of " + std::to_string(factor) + ", found " +
                     std::to_string(value));
  }

  Status ReadSizes(ModelConfig* config) const {
    constexpr int kMaxLayers = 4096;
    constexpr int kMaxHeads = 4096;
    constexpr int kMaxWidth = 1 << 24;  // so that no product of a width and a head count leaves an int64
    WINNOW_ASSIGN_OR_RETURN(config->num_layers, ReadSize("block_count", kMaxLayers));
    WINNOW_ASSIGN_OR_RETURN(config->max_context, ReadSize("context_length"));
    WINNOW_ASSIGN_OR_RETURN(config->hidden_size, ReadSize("embedding_length", kMaxWidth));
    WINNOW_RETURN_IF_ERROR(ExpectMultiple("embedding_length", config->hidden_size, 32));
    WINNOW_ASSIGN_OR_RETURN(config->ffn_size, ReadSize("feed_forward_length", kMaxWidth));
    WINNOW_RETURN_IF_ERROR(ExpectMultiple("feed_forward_length", config->ffn_size, 64));
    WINNOW_ASSIGN_OR_RETURN(config->num_query_heads, ReadSize("attention.head_count", kMaxHeads));
    WINNOW_ASSIGN_OR_RETURN(config->num_kv_heads, ReadSizeOr("attention.head_count_kv", config->num_query_heads));
    WINNOW_RETURN_IF_ERROR(ExpectMultiple("attention.head_count", config->num_query_heads, config->num_kv_heads));
    return ReadHeadDim(config);
  }

  Status ReadHeadDim(ModelConfig* config) const {
    if (!file_.Has(Key("attention.key_length")) && config->hidden_size % config->num_query_heads != 0) {
      return file_.Bad(Key("embedding_length") + ": expected a multiple of the " +
                       std::to_string(config->num_query_heads) + " query heads, found " +
                       std::to_string(config->hidden_size));
    }
    WINNOW_ASSIGN_OR_RETURN(config->head_dim,
                            ReadSizeOr("attention.key_length", config->hidden_size / config->num_query_heads));
    for (const std::string_view name : {"attention.value_length", "rope.dimension_count"}) {
      WINNOW_ASSIGN_OR_RETURN(const int other, ReadSizeOr(name, config->head_dim));
      if (other != config->head_dim) {
        return file_.Bad(Key(name) + ": expected the head size " + std::to_string(config->head_dim) + ", found " +
                         std::to_string(other));
      }
    }
    if (config->head_dim % 32 != 0) {  // one head is a segment of the exact sum, in whole blocks of 32
      return file_.Bad("expected a head size that is a multiple of 32, found " + std::to_string(config->head_dim));
    }
    return OkStatus();
  }

  Status ReadEpsilon(ModelConfig* config) const {
    const std::string key = Key("attention.layer_norm_rms_epsilon");
    WINNOW_ASSIGN_OR_RETURN(const double epsilon, file_.GetFloat(key));
    if (!(epsilon > 0 && epsilon < 1)) {
      return file_.Bad(key + ": expected more than 0 and less than 1, found " + std::to_string(epsilon));
    }
    config->rms_epsilon = float(epsilon);
    return OkStatus();
  }

  Status ReadVocabulary(ModelConfig* config) const {
    WINNOW_ASSIGN_OR_RETURN(const GgufTensor* embedding, file_.GetTensor("token_embd.weight"));
    if (embedding->shape.size() != 2 || embedding->shape[1] > std::numeric_limits<int>::max()) {
      return file_.Bad("tensor token_embd.weight: expected a matrix of fewer than 2^31 rows");
    }
    config->vocab_size = int(embedding->shape[1]);
    WINNOW_ASSIGN_OR_RETURN(const int stated, ReadSizeOr("vocab_size", config->vocab_size));
    if (stated != config->vocab_size) {
      return file_.Bad(Key("vocab_size") + ": expected the " + std::to_string(config->vocab_size) +
                       " rows of token_embd.weight, found " + std::to_string(stated));
    }
    if (file_.Has("tokenizer.ggml.tokens")) {
      WINNOW_ASSIGN_OR_RETURN(const auto tokens, file_.GetStringArray("tokenizer.ggml.tokens"));
      if (tokens.size() != size_t(config->vocab_size)) {
        return file_.Bad("tokenizer.ggml.tokens: expected the " + std::to_string(config->vocab_size) +
                         " rows of token_embd.weight, found " + std::to_string(tokens.size()) + " tokens");
      }
    }
    return OkStatus();
  }

  const GgufFile& file_;
  std::string prefix_;  // "llama."
};

}  // namespace

Result<ModelConfig> ReadModelConfig(const GgufFile& file) {
  return ConfigReader(file).Read();
}

}  // namespace winnow
