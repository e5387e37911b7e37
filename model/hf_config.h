// config.json of a Hugging Face model as a ModelConfig. Strict: a key that winnow does not know might change the
// mathematics, so it is refused by name. Pure functions, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/model_config.h"

namespace winnow {

struct HfConfig {
  ModelConfig model;  // name: that of the directory; tied_embeddings as tie_word_embeddings says
  std::vector<int32_t> eos_ids;
  std::optional<DType> dtype;  // torch_dtype or dtype; weights in files say for themselves what they are
};

// `source`: the path, for messages. BadFile naming the key, what was expected and what was found, for:
//   - what is no JSON object, a key twice in one object;
//   - a model_type or architecture other than llama, mistral, qwen2 and qwen3 as causal language models;
//   - sizes that are missing, out of range or do not fit each other;
//   - features that winnow does not compute: another activation, biases of attention outputs and FFN, windows, experts,
//     quantised checkpoints, partial rotation, RoPE scaling other than linear, llama3 and yarn, custom code;
//   - keys that are neither read nor in the list of those known to change nothing (docs/models.md), unless null.
Result<HfConfig> ParseHfConfig(std::string_view json, const std::string& source);
Result<HfConfig> ReadHfConfig(const std::string& path);

}  // namespace winnow
