#include "model/special_token_finder.h"

#include <algorithm>
#include <utility>

namespace winnow {

SpecialTokenFinder::SpecialTokenFinder(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const Token& a, const Token& b) { return a.text < b.text; });
  for (const Token& token : tokens_) ++first_[uint8_t(token.text[0]) + size_t(1)];
  for (size_t byte = 0; byte < 256; ++byte) first_[byte + 1] += first_[byte];
}

const SpecialTokenFinder::Token* SpecialTokenFinder::LongestAt(std::string_view text, size_t begin,
                                                               size_t limit) const {
  const auto first = size_t(uint8_t(text[begin]));
  auto low = tokens_.begin() + first_[first], high = tokens_.begin() + first_[first + 1];
  const Token* longest = nullptr;
  // Those of [low, high) begin with the `size` bytes at `begin`.
  for (size_t size = 1; low != high; ++size) {
    if (low->text.size() == size) longest = &*low++;
    if (begin + size >= limit) break;
    const auto byte = uint8_t(text[begin + size]);
    low = std::partition_point(low, high, [&](const Token& token) { return uint8_t(token.text[size]) < byte; });
    high = std::partition_point(low, high, [&](const Token& token) { return uint8_t(token.text[size]) == byte; });
  }
  return longest;
}

std::optional<SpecialTokenFinder::Match> SpecialTokenFinder::FindNext(std::string_view text, size_t begin, size_t end,
                                                                      std::span<const TextSpan> plain) const {
  // The first plain span that ends after `begin`.
  auto span = std::upper_bound(plain.begin(), plain.end(), begin,
                               [](size_t offset, const TextSpan& other) { return offset < other.end; });
  for (; begin < end; ++begin) {
    if (span != plain.end() && begin >= span->begin) {
      begin = span->end;
      ++span;
      if (begin >= end) break;
    }
    const size_t limit = span == plain.end() ? end : std::min(end, span->begin);
    if (const Token* token = LongestAt(text, begin, limit)) return Match{begin, begin + token->text.size(), token->id};
  }
  return std::nullopt;
}

std::optional<int32_t> SpecialTokenFinder::Find(std::string_view text) const {
  const auto found = std::lower_bound(tokens_.begin(), tokens_.end(), text,
                                      [](const Token& a, std::string_view b) { return a.text < b; });
  if (found == tokens_.end() || found->text != text) return std::nullopt;
  return found->id;
}

}  // namespace winnow
