#include "model/special_tokens.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace winnow {
namespace {

constexpr std::array<std::string_view, 8> kEndTexts = {"<|im_end|>",      "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",
                                                       "<|end_of_text|>", "<|end|>",       "<EOT>",      "</s>"};

}  // namespace

void AddWellKnownEnds(const std::vector<std::string>& tokens, const std::vector<TokenType>& types,
                      SpecialTokens* special) {
  std::vector<int32_t>& ids = special->eos_ids;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] != TokenType::kControl && types[id] != TokenType::kUserDefined) continue;
    if (std::find(kEndTexts.begin(), kEndTexts.end(), tokens[id]) != kEndTexts.end()) ids.push_back(int32_t(id));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace winnow
