// Which tokens begin and end a text, from a model file's tokenizer metadata. Plain data, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace winnow {

// The token types of GGUF files.
enum class TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct SpecialTokens {
  std::optional<int32_t> bos_id;
  bool add_bos = false;          // encoding a text puts bos_id in front; bos_id is then set
  std::vector<int32_t> eos_ids;  // ascending: tokenizer.ggml.eos_token_id, the ids of turn and message ends, and the
                                 // control tokens of well-known text such as <|im_end|> and <|endoftext|>
};

// Adds the ids of control and user-defined tokens of well-known text that ends a turn or a text; eos_ids is then
// ascending, every id once. `tokens` and `types` are of one length.
void AddWellKnownEnds(const std::vector<std::string>& tokens, const std::vector<TokenType>& types,
                      SpecialTokens* special);

}  // namespace winnow
