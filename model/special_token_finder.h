// Finds the text of control and user-defined tokens inside a text. Filled once by its owner, the Tokenizer, then
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

  // `text` is not empty.
  void Add(std::string_view text, int32_t id);
  bool empty() const { return num_tokens_ == 0; }

  // The leftmost token within bytes [begin, end) of `text`, the longest one where several start there. None counts that
  // lies in, or reaches into, one of the `plain` ranges (of bytes of `text`, ascending, not touching).
  std::optional<Match> FindNext(std::string_view text, size_t begin, size_t end, std::span<const TextSpan> plain) const;
  std::optional<int32_t> Find(std::string_view text) const;

 private:
  struct Token {
    std::string text;
    int32_t id;
  };
  std::array<std::vector<Token>, 256> by_first_byte_;  // longest first
  size_t num_tokens_ = 0;
};

}  // namespace winnow
