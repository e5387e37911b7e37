#include "model/generation_defaults.h"

#include <array>

#include "model/file_bytes.h"
#include "model/hf_config_fields.h"
#include "model/sampling_params.h"
#include "model/strict_json.h"

namespace winnow {
namespace {

// Changes which token is drawn; the value that changes nothing.
struct Processor {
  const char* key;
  double neutral;
};
constexpr std::array<Processor, 13> kNotSupported = {{{"repetition_penalty", 1},
                                                      {"encoder_repetition_penalty", 1},
                                                      {"typical_p", 1},
                                                      {"epsilon_cutoff", 0},
                                                      {"eta_cutoff", 0},
                                                      {"presence_penalty", 0},
                                                      {"frequency_penalty", 0},
                                                      {"no_repeat_ngram_size", 0},
                                                      {"penalty_alpha", 0},
                                                      {"num_beams", 1},
                                                      {"min_new_tokens", 0},
                                                      {"min_length", 0},
                                                      {"guidance_scale", 1}}};
// The same, for lists and tokens: nothing or an empty list changes nothing.
constexpr std::array kNotSupportedAtAll = {"suppress_tokens",     "begin_suppress_tokens",
                                           "bad_words_ids",       "force_words_ids",
                                           "forced_bos_token_id", "forced_eos_token_id",
                                           "forced_decoder_ids",  "sequence_bias",
                                           "constraints",         "exponential_decay_length_penalty"};

Result<std::optional<float>> Float(HfFields* fields, const char* key) {
  WINNOW_ASSIGN_OR_RETURN(const auto number, fields->Number(key));
  return number ? std::optional<float>(float(*number)) : std::nullopt;
}

}  // namespace

Result<GenerationDefaults> ParseGenerationConfig(std::string_view json, const std::string& source) {
  const auto document = ParseStrictJson(json);
  if (!document.ok()) return BadFile(source + ": " + document.status().message());
  const JsonView view(*document, source);
  WINNOW_RETURN_IF_ERROR(view.CheckObject());
  HfFields fields(view);
  GenerationDefaults defaults;
  defaults.source = source;
  WINNOW_ASSIGN_OR_RETURN(defaults.eos_ids, fields.Ids("eos_token_id"));
  WINNOW_ASSIGN_OR_RETURN(const auto sample, fields.Bool("do_sample"));
  defaults.sample = sample.value_or(false);
  WINNOW_ASSIGN_OR_RETURN(defaults.temperature, Float(&fields, "temperature"));
  WINNOW_ASSIGN_OR_RETURN(defaults.top_p, Float(&fields, "top_p"));
  WINNOW_ASSIGN_OR_RETURN(defaults.min_p, Float(&fields, "min_p"));
  WINNOW_ASSIGN_OR_RETURN(defaults.top_k, fields.Int("top_k", 0, INT32_MAX));
  const SamplingParams sampling{defaults.temperature.value_or(0), defaults.top_k.value_or(0),
                                defaults.top_p.value_or(1), defaults.min_p.value_or(0), /*seed=*/0};
  if (const Status status = CheckSamplingParams(sampling); !status.ok()) return view.Bad(status.message());
  for (const auto& [key, neutral] : kNotSupported) {
    WINNOW_ASSIGN_OR_RETURN(const auto value, fields.Number(key));
    if (value && *value != neutral) {
      defaults.not_supported.push_back(std::string(key) + " " + nlohmann::json(*value).dump());
    }
  }
  for (const char* key : kNotSupportedAtAll) {
    const nlohmann::json* value = fields.Take(key);
    if (value != nullptr && !(value->is_structured() && value->empty())) defaults.not_supported.push_back(key);
  }
  return defaults;
}

Result<GenerationDefaults> ReadGenerationConfig(const std::string& path) {
  WINNOW_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::Map(path));
  constexpr size_t kMaxBytes = 4 << 20;
  if (file.bytes().size() > kMaxBytes) {
    return BadFile(path + ": expected at most 4 MiB, found " + std::to_string(file.bytes().size()) + " bytes");
  }
  return ParseGenerationConfig({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

}  // namespace winnow
