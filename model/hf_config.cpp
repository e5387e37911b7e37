#include "model/hf_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>

#include "model/hf_config_fields.h"
#include "model/hf_rope.h"
#include "model/strict_json.h"
#include "model/utf8_stream.h"

namespace winnow {
namespace {

// What the model types differ in. Defaults are those of transformers' configuration classes.
struct ModelType {
  std::string_view name, architecture, class_name;
  bool qkv_bias, qk_norm;
  int default_head_dim;        // 0: hidden_size / num_attention_heads
  int default_sliding_window;  // 0: none
};
constexpr std::array<ModelType, 4> kModelTypes = {{
    {"llama", "llama", "LlamaForCausalLM", false, false, 0, 0},
    {"mistral", "llama", "MistralForCausalLM", false, false, 0, 4096},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", true, false, 0, 0},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", false, true, 128, 0},
}};

class ConfigReader {
 public:
  explicit ConfigReader(const JsonView& file) : fields_(file) {}

  Result<HfConfig> Read() {
    HfConfig config;
    WINNOW_RETURN_IF_ERROR(ReadType(&config.model));
    WINNOW_RETURN_IF_ERROR(ReadSizes(&config.model));
    WINNOW_RETURN_IF_ERROR(ReadHeads(&config.model));
    WINNOW_RETURN_IF_ERROR(ReadConstants(&config.model));
    WINNOW_RETURN_IF_ERROR(ReadDType(&config.dtype));
    WINNOW_RETURN_IF_ERROR(ReadHfRope(&fields_, &config.model));
    WINNOW_RETURN_IF_ERROR(CheckWindows(config.model));
    WINNOW_RETURN_IF_ERROR(CheckUnusedFeatures());
    WINNOW_ASSIGN_OR_RETURN(config.eos_ids, fields_.Ids("eos_token_id"));
    IgnoreHarmless();
    WINNOW_RETURN_IF_ERROR(fields_.RefuseOthers());
    return config;
  }

 private:
  Status ReadType(ModelConfig* config) {
    WINNOW_ASSIGN_OR_RETURN(const auto name, fields_.Text("model_type"));
    const auto found = std::find_if(kModelTypes.begin(), kModelTypes.end(),
                                    [&](const ModelType& type) { return name && type.name == *name; });
    if (found == kModelTypes.end()) return fields_.Expected("model_type", "llama, mistral, qwen2 or qwen3");
    type_ = &*found;
    config->architecture = type_->architecture;
    config->qkv_bias = type_->qkv_bias;
    config->qk_norm = type_->qk_norm;
    const nlohmann::json* classes = fields_.Take("architectures");
    if (classes != nullptr && *classes != nlohmann::json::array({std::string(type_->class_name)})) {
      return fields_.Expected("architectures", std::string(type_->class_name) + " alone");
    }
    return OkStatus();
  }

  Result<int> Multiple(const char* key, int highest, int factor) {
    WINNOW_ASSIGN_OR_RETURN(const int value, fields_.RequiredInt(key, 1, highest));
    return value % factor == 0 ? Result<int>(value) : fields_.Expected(key, "a multiple of " + std::to_string(factor));
  }

  Status ReadSizes(ModelConfig* config) {
    constexpr int kMaxLayers = 4096;
    constexpr int kMaxWidth = 1 << 24;  // so that no product of a width and a head count leaves an int64
    constexpr int kMax = 1 << 30;
    WINNOW_ASSIGN_OR_RETURN(config->num_layers, fields_.RequiredInt("num_hidden_layers", 1, kMaxLayers));
    WINNOW_ASSIGN_OR_RETURN(config->hidden_size, Multiple("hidden_size", kMaxWidth, 32));
    WINNOW_ASSIGN_OR_RETURN(config->ffn_size, Multiple("intermediate_size", kMaxWidth, 64));
    WINNOW_ASSIGN_OR_RETURN(config->vocab_size, fields_.RequiredInt("vocab_size", 1, kMax));
    WINNOW_ASSIGN_OR_RETURN(config->max_context, fields_.RequiredInt("max_position_embeddings", 1, kMax));
    return OkStatus();
  }

  Status ReadHeads(ModelConfig* config) {
    constexpr int kMaxHeads = 4096, kMaxHeadDim = 1 << 16;
    WINNOW_ASSIGN_OR_RETURN(config->num_query_heads, fields_.RequiredInt("num_attention_heads", 1, kMaxHeads));
    WINNOW_ASSIGN_OR_RETURN(const auto kv_heads, fields_.Int("num_key_value_heads", 1, kMaxHeads));
    if (!kv_heads && type_->name != "llama") return fields_.Expected("num_key_value_heads", "a whole number");
    config->num_kv_heads = kv_heads.value_or(config->num_query_heads);
    if (config->num_query_heads % config->num_kv_heads != 0) {
      return fields_.Expected("num_attention_heads",
                              "a multiple of the " + std::to_string(config->num_kv_heads) + " KV heads");
    }
    WINNOW_ASSIGN_OR_RETURN(const auto head_dim, fields_.Int("head_dim", 1, kMaxHeadDim));
    if (!head_dim && type_->default_head_dim == 0 && config->hidden_size % config->num_query_heads != 0) {
      return fields_.Expected("hidden_size",
                              "a multiple of the " + std::to_string(config->num_query_heads) + " attention heads");
    }
    const int otherwise =
        type_->default_head_dim > 0 ? type_->default_head_dim : config->hidden_size / config->num_query_heads;
    config->head_dim = head_dim.value_or(otherwise);
    if (config->head_dim % 32 == 0) return OkStatus();
    return fields_.Bad("head_dim", "expected a multiple of 32, found " + std::to_string(config->head_dim));
  }

  Status ReadConstants(ModelConfig* config) {
    WINNOW_ASSIGN_OR_RETURN(const auto epsilon, fields_.Number("rms_norm_eps"));
    if (!(epsilon.value_or(1e-6) > 0 && epsilon.value_or(1e-6) < 1)) {
      return fields_.Expected("rms_norm_eps", "more than 0 and less than 1");
    }
    config->rms_epsilon = float(epsilon.value_or(1e-6));
    WINNOW_ASSIGN_OR_RETURN(const auto tied, fields_.Bool("tie_word_embeddings"));
    config->tied_embeddings = tied.value_or(false);
    WINNOW_ASSIGN_OR_RETURN(const auto activation, fields_.Text("hidden_act"));
    if (activation.value_or("silu") != "silu") return fields_.Expected("hidden_act", "silu");
    return OkStatus();
  }

  Status ReadDType(std::optional<DType>* out) {
    for (const char* key : {"torch_dtype", "dtype"}) {
      WINNOW_ASSIGN_OR_RETURN(const auto name, fields_.Text(key));
      if (!name) continue;
      if (*name == "float32") *out = DType::kF32;
      if (*name == "float16") *out = DType::kF16;
      if (*name == "bfloat16") *out = DType::kBF16;
      if (!*out) return fields_.Expected(key, "float32, float16 or bfloat16");
    }
    return OkStatus();
  }

  // A window that is not shorter than the context never hides anything.
  Status CheckWindows(const ModelConfig& config) {
    WINNOW_ASSIGN_OR_RETURN(const auto used, fields_.Bool("use_sliding_window"));
    WINNOW_ASSIGN_OR_RETURN(const auto window, fields_.Int("sliding_window", 1, 1 << 30));
    fields_.Ignore({"max_window_layers"});  // of use_sliding_window
    if (type_->name == "mistral" || type_->name == "llama") {
      const bool has_key = fields_.IsGiven("sliding_window");
      const int shortest = window.value_or(has_key ? 0 : type_->default_sliding_window);
      if (shortest != 0 && shortest < config.max_context) {
        return fields_.Bad("sliding_window", "expected null (winnow attends to all earlier tokens), found " +
                                                 std::to_string(shortest) + (window ? "" : ", Mistral's default"));
      }
    }
    if (used.value_or(false)) return fields_.Expected("use_sliding_window", "false");
    const nlohmann::json* types = fields_.Take("layer_types");
    if (types == nullptr) return OkStatus();
    const nlohmann::json all(size_t(config.num_layers), nlohmann::json("full_attention"));
    if (*types == all) return OkStatus();
    return fields_.Bad("layer_types",
                       "expected full_attention for all of the " + std::to_string(config.num_layers) + " layers");
  }

  Status CheckUnusedFeatures() {
    WINNOW_RETURN_IF_ERROR(fields_.MustBeFalse("attention_bias", "winnow has no biases of attention outputs"));
    WINNOW_RETURN_IF_ERROR(fields_.MustBeFalse("mlp_bias", "winnow has no biases of the FFN"));
    WINNOW_RETURN_IF_ERROR(fields_.MustBeFalse("rope_interleaved", "Hugging Face's rows are not interleaved"));
    WINNOW_RETURN_IF_ERROR(fields_.MustBeFalse("use_mrope", "winnow has no multimodal RoPE"));
    WINNOW_RETURN_IF_ERROR(fields_.MustBeFalse("is_encoder_decoder", "winnow runs decoders"));
    WINNOW_RETURN_IF_ERROR(fields_.MustBeFalse("add_cross_attention", "winnow runs decoders alone"));
    if (fields_.Take("quantization_config") != nullptr) {
      return fields_.Bad("quantization_config",
                         "expected weights in F32, F16 or BF16, found a quantised checkpoint (use a GGUF file)");
    }
    if (fields_.Take("auto_map") != nullptr) {
      return fields_.Bad("auto_map", "expected a model that transformers knows, found one with code of its own");
    }
    for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
      WINNOW_ASSIGN_OR_RETURN(const auto experts, fields_.Int(key, 0, 1 << 20));
      if (experts.value_or(0) != 0) return fields_.Expected(key, "none (winnow has no experts)");
    }
    return OkStatus();
  }

  // Known to leave a forward pass as it is: training, tokens, generation (the last two are read from their own files),
  // how transformers runs the model, where the file comes from.
  void IgnoreHarmless() {
    fields_.Ignore({"_name_or_path",
                    "name_or_path",
                    "transformers_version",
                    "transformers.js_config",
                    "is_llama_config",
                    "use_cache",
                    "initializer_range",
                    "attention_dropout",
                    "hidden_dropout",
                    "pretraining_tp",
                    "tokenizer_class",
                    "max_sequence_length",
                    "model_max_length",
                    "unsloth_version",
                    "unsloth_fixed",
                    "_attn_implementation_autoset",
                    "_flash_attn_2_enabled",
                    "attn_implementation",
                    "_attn_implementation",
                    "return_dict",
                    "output_hidden_states",
                    "output_attentions",
                    "torchscript",
                    "use_bfloat16",
                    "tf_legacy_loss",
                    "is_decoder",
                    "chunk_size_feed_forward",
                    "gradient_checkpointing",
                    "id2label",
                    "label2id",
                    "num_labels",
                    "problem_type",
                    "finetuning_task",
                    "task_specific_params",
                    "return_dict_in_generate",
                    "output_scores",
                    "bos_token_id",
                    "pad_token_id",
                    "unk_token_id",
                    "sep_token_id",
                    "decoder_start_token_id",
                    "prefix",
                    "max_length",
                    "min_length",
                    "do_sample",
                    "early_stopping",
                    "num_beams",
                    "num_beam_groups",
                    "diversity_penalty",
                    "temperature",
                    "top_k",
                    "top_p",
                    "typical_p",
                    "repetition_penalty",
                    "length_penalty",
                    "no_repeat_ngram_size",
                    "encoder_no_repeat_ngram_size",
                    "bad_words_ids",
                    "num_return_sequences",
                    "forced_bos_token_id",
                    "forced_eos_token_id",
                    "remove_invalid_values",
                    "exponential_decay_length_penalty",
                    "suppress_tokens",
                    "begin_suppress_tokens"});
  }

  HfFields fields_;
  const ModelType* type_ = nullptr;
};

}  // namespace

Result<HfConfig> ParseHfConfig(std::string_view json, const std::string& source) {
  const auto document = ParseStrictJson(json);
  if (!document.ok()) return BadFile(source + ": " + document.status().message());
  const JsonView view(*document, source);
  WINNOW_RETURN_IF_ERROR(view.CheckObject());
  return ConfigReader(view).Read();
}

namespace {

// The name that people call the model by: its directory.
std::string NameOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error).lexically_normal();
  Utf8Stream valid;  // results carry the name as JSON, which holds no other bytes
  return valid.Push(absolute.parent_path().filename().string()) + valid.Finish();
}

}  // namespace

Result<HfConfig> ReadHfConfig(const std::string& path) {
  WINNOW_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::Map(path));
  constexpr size_t kMaxBytes = 4 << 20;
  if (file.bytes().size() > kMaxBytes) {
    return BadFile(path + ": expected a configuration of at most 4 MiB, found " + std::to_string(file.bytes().size()) +
                   " bytes");
  }
  WINNOW_ASSIGN_OR_RETURN(
      HfConfig config, ParseHfConfig({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path));
  config.model.name = NameOf(path);
  return config;
}

}  // namespace winnow
