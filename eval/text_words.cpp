#include "eval/text_words.h"

#include <algorithm>

#include "model/utf8.h"

namespace winnow {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";

}  // namespace

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (size_t i = 0; i < lower.size(); ++i) {
    const uint8_t lead = uint8_t(lower[i]);
    if (lead >= 'A' && lead <= 'Z') lower[i] = char(lead + 0x20);
    if (lead < 0xc3 || lead > 0xd0 || i + 1 == lower.size() || (lower[i + 1] & 0xc0) != 0x80) continue;
    // Two bytes of UTF-8 each: their numbers and the distance to the small letter, by blocks of Unicode.
    const uint32_t code = uint32_t(lead & 0x1f) << 6 | (uint8_t(lower[i + 1]) & 0x3f);
    const bool by_32 = (code >= 0xc0 && code <= 0xde && code != 0xd7) || (code >= 0x391 && code <= 0x3a9) ||
                       (code >= 0x410 && code <= 0x42f);
    const bool by_80 = code >= 0x400 && code <= 0x40f;
    const uint32_t small = code + (by_32 ? 0x20 : by_80 ? 0x50 : 0);
    lower[i] = char(0xc0 | small >> 6);
    lower[i + 1] = char(0x80 | (small & 0x3f));
    ++i;
  }
  return lower;
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t begin = text.find_first_not_of(kSpace);
  while (begin != std::string_view::npos) {
    const size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpace, end);
  }
  return words;
}

std::string_view FirstLine(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    const size_t num_bytes = FirstUtf8Unit(text).num_bytes;
    characters.push_back(text.substr(0, num_bytes));
    text.remove_prefix(num_bytes);
  }
  return characters;
}

}  // namespace winnow
