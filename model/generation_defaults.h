// How a model's makers want answers to be drawn and ended: what the files of a model say beside its mathematics. Plain
// data, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace winnow {

struct GenerationDefaults {
  std::string source;            // the file; empty: none says anything
  std::vector<int32_t> eos_ids;  // tokens that end an answer, beside those of the tokenizer
  // Drawn with what follows, unless flags or requests say otherwise. False: greedy, and the numbers do not count.
  bool sample = false;
  std::optional<float> temperature, top_p, min_p;
  std::optional<int32_t> top_k;
  // What the file asks for and winnow does not have, as "repetition_penalty 1.05".
  std::vector<std::string> not_supported;
};

// generation_config.json of Hugging Face. A key that has no say in which token is drawn, and is no end of text, is not
// looked at. BadFile for what is no JSON object, for a key twice and for values of another kind.
Result<GenerationDefaults> ReadGenerationConfig(const std::string& path);
Result<GenerationDefaults> ParseGenerationConfig(std::string_view json, const std::string& source);

}  // namespace winnow
