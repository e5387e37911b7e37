// Finds the text of control and user-defined tokens inside a text. Made once by its owner, the Tokenizer, and
// immutable: any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/text_span.h"

namespace winnow {

class SpecialTokenFinder {
 public:
  struct Match {
    size_t begin, end;
    int32_t id;
  };

  struct Token {
    std::string text;
    int32_t id;
  };

  SpecialTokenFinder() = default;
  // Texts are not empty, and each is there once. O(tokens * log(tokens)): files may bring a hundred thousand of them.
  explicit SpecialTokenFinder(std::vector<Token> tokens);
  bool empty() const { return tokens_.empty(); }

  // The leftmost token within bytes [begin, end) of `text`, the longest one where several start there. None counts that
  // lies in, or reaches into, one of the `plain` ranges (of bytes of `text`, ascending, not touching). A byte of the
  // text costs as many steps as it begins bytes of tokens, each O(log(tokens)).
  std::optional<Match> FindNext(std::string_view text, size_t begin, size_t end, std::span<const TextSpan> plain) const;
  std::optional<int32_t> Find(std::string_view text) const;

 private:
  // The longest token that begins at `begin` and ends by `limit`. begin < limit.
  const Token* LongestAt(std::string_view text, size_t begin, size_t limit) const;

  std::vector<Token> tokens_;          // by text, bytes as uint8_t: what begins alike lies together
  std::array<uint32_t, 257> first_{};  // of those that begin with byte b: first_[b] to first_[b + 1]
};

}  // namespace winnow
