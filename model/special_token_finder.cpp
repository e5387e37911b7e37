#include "model/special_token_finder.h"

#include <algorithm>

namespace winnow {

void SpecialTokenFinder::Add(std::string_view text, int32_t id) {
  std::vector<Token>& tokens = by_first_byte_[uint8_t(text[0])];
  const auto place =
      std::find_if(tokens.begin(), tokens.end(), [&](const Token& other) { return other.text.size() < text.size(); });
  tokens.insert(place, Token{std::string(text), id});
  ++num_tokens_;
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
    for (const Token& token : by_first_byte_[uint8_t(text[begin])]) {
      const size_t token_end = begin + token.text.size();
      if (token_end > end || (span != plain.end() && token_end > span->begin)) continue;
      if (text.substr(begin, token.text.size()) == token.text) return Match{begin, token_end, token.id};
    }
  }
  return std::nullopt;
}

std::optional<int32_t> SpecialTokenFinder::Find(std::string_view text) const {
  if (text.empty()) return std::nullopt;
  for (const Token& token : by_first_byte_[uint8_t(text[0])]) {
    if (token.text == text) return token.id;
  }
  return std::nullopt;
}

}  // namespace winnow
