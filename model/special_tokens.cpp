#include "model/special_tokens.h"

#include <algorithm>
#include <array>
#include <string>

#include "model/pre_tokenizer.h"

namespace winnow {
namespace {

constexpr std::array<const char*, 3> kEndKeys = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                                 "tokenizer.ggml.eom_token_id"};
constexpr std::array<std::string_view, 8> kEndTexts = {"<|im_end|>",      "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",
                                                       "<|end_of_text|>", "<|end|>",       "<EOT>",      "</s>"};

Result<int32_t> ReadId(const GgufFile& file, std::string_view key, size_t vocab_size) {
  WINNOW_ASSIGN_OR_RETURN(const uint64_t id, file.GetUint(key));
  if (id >= vocab_size) {
    return file.Bad(std::string(key) + ": expected an id below the vocabulary's " + std::to_string(vocab_size) +
                    ", found " + std::to_string(id));
  }
  return int32_t(id);
}

}  // namespace

Result<SpecialTokens> ReadSpecialTokens(const GgufFile& file) {
  SpecialTokens special;
  WINNOW_ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens, file.GetStringArray("tokenizer.ggml.tokens"));
  for (const char* key : kEndKeys) {
    if (!file.Has(key)) continue;
    WINNOW_ASSIGN_OR_RETURN(const int32_t id, ReadId(file, key, tokens.size()));
    special.eos_ids.push_back(id);
  }
  if (file.Has("tokenizer.ggml.token_type")) {
    WINNOW_ASSIGN_OR_RETURN(const std::vector<int64_t> types, file.GetIntArray("tokenizer.ggml.token_type"));
    for (size_t id = 0; id < std::min(tokens.size(), types.size()); ++id) {
      if (types[id] != int64_t(TokenType::kControl) && types[id] != int64_t(TokenType::kUserDefined)) continue;
      if (std::find(kEndTexts.begin(), kEndTexts.end(), tokens[id]) != kEndTexts.end()) {
        special.eos_ids.push_back(int32_t(id));
      }
    }
  }
  std::sort(special.eos_ids.begin(), special.eos_ids.end());
  special.eos_ids.erase(std::unique(special.eos_ids.begin(), special.eos_ids.end()), special.eos_ids.end());

  if (file.Has("tokenizer.ggml.bos_token_id")) {
    WINNOW_ASSIGN_OR_RETURN(special.bos_id, ReadId(file, "tokenizer.ggml.bos_token_id", tokens.size()));
  }
  if (file.Has("tokenizer.ggml.add_bos_token")) {
    WINNOW_ASSIGN_OR_RETURN(special.add_bos, file.GetBool("tokenizer.ggml.add_bos_token"));
  } else if (file.Has("tokenizer.ggml.pre")) {
    WINNOW_ASSIGN_OR_RETURN(const std::string_view name, file.GetString("tokenizer.ggml.pre"));
    const PreTokenizerRule* rule = FindPreTokenizerRule(name);
    special.add_bos = rule != nullptr && rule->adds_bos && special.bos_id.has_value();
  }
  if (special.add_bos && !special.bos_id) {
    return file.Bad("tokenizer.ggml.add_bos_token is true: expected tokenizer.ggml.bos_token_id, found none");
  }
  return special;
}

}  // namespace winnow
