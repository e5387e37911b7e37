#include "tests/support/tiny_vocabulary.h"

#include <algorithm>

#include "base/check.h"
#include "model/byte_level.h"
#include "model/special_tokens.h"

namespace winnow {

TinyVocabulary::TinyVocabulary() {
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(ByteLevelCharacter(uint8_t(byte)));
  // "Ġ" is the space. Rank order: "ll" goes before "el" and "lo".
  merges = {"h e", "l l", "Ġ w", "o r", "he ll", "hell o", "l d", "Ġw or", "Ġwor ld", "a a", "aa aa", "e l", "l o"};
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ');
    tokens.push_back(merge.substr(0, space) + merge.substr(space + 1));
  }
  types.assign(tokens.size(), int32_t(TokenType::kNormal));
  for (const char* special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    tokens.push_back(special);
    types.push_back(int32_t(TokenType::kControl));
  }
  bos_id = uint32_t(IdOf("<|im_start|>"));
  eos_id = uint32_t(IdOf("<|im_end|>"));
}

void TinyVocabulary::AddTo(GgufWriter* writer) const {
  writer->AddString("tokenizer.ggml.model", model);
  writer->AddString("tokenizer.ggml.pre", pre_tokenizer);
  writer->AddStringArray("tokenizer.ggml.tokens", tokens);
  writer->AddInt32Array("tokenizer.ggml.token_type", types);
  writer->AddStringArray("tokenizer.ggml.merges", merges);
  writer->AddUint32("tokenizer.ggml.bos_token_id", bos_id);
  writer->AddUint32("tokenizer.ggml.eos_token_id", eos_id);
  writer->AddBool("tokenizer.ggml.add_bos_token", add_bos);
}

int32_t TinyVocabulary::IdOf(std::string_view token) const {
  const auto found = std::find(tokens.begin(), tokens.end(), token);
  WINNOW_CHECK(found != tokens.end());
  return int32_t(found - tokens.begin());
}

}  // namespace winnow
