// Words for the messages of the tokenizer's readers. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/utf8.h"

namespace winnow {

// The bytes of a file may be anything: long ones are cut, and what could harm a terminal becomes '?'.
inline std::string QuotedToken(std::string_view text) {
  constexpr size_t kMaxShown = 60;
  std::string shown(text.substr(0, kMaxShown));
  for (char& character : shown) {
    if (uint8_t(character) < 0x20 || character == 0x7f) character = '?';
  }
  if (FindInvalidUtf8(shown)) {
    for (char& character : shown) {
      if (uint8_t(character) >= 0x80) character = '?';
    }
  }
  return "\"" + shown + (text.size() > kMaxShown ? "...\"" : "\"");
}

// "tokenizer.ggml.tokens[12]"
inline std::string ElementName(std::string_view list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

}  // namespace winnow
