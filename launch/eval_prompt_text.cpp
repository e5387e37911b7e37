#include "launch/eval_prompt_text.h"

#include "launch/text_file.h"
#include "model/utf8.h"

namespace winnow {

Result<EvalPrompt> EncodeParts(const Tokenizer& tokenizer, const std::vector<std::string>& parts,
                               size_t num_compressed) {
  EvalPrompt prompt;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::optional<bool> add_bos = i == 0 ? std::nullopt : std::optional<bool>(false);
    WINNOW_ASSIGN_OR_RETURN(const auto ids, tokenizer.Encode(parts[i], {.add_bos = add_bos}));
    prompt.tokens.insert(prompt.tokens.end(), ids.begin(), ids.end());
    if (i < num_compressed) prompt.compressed_tokens = int64_t(prompt.tokens.size());
  }
  return prompt;
}

Result<Haystack> ReadHaystack(const std::optional<std::string>& path) {
  if (!path) return Haystack();
  WINNOW_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(*path, "haystack file"));
  if (const auto at = FindInvalidUtf8(text)) {
    return InvalidArgument("haystack file '" + *path + "': expected UTF-8, found an invalid sequence at byte " +
                           std::to_string(*at));
  }
  Haystack haystack = Haystack::FromText(text);
  if (haystack.is_generated()) {
    return InvalidArgument("haystack file '" + *path + "': expected a text, found no word");
  }
  return haystack;
}

}  // namespace winnow
