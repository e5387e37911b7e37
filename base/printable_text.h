// Text from outside (names in a model file, arguments) made fit for a line on a terminal. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace winnow {

// Control characters, which could colour the terminal, move its cursor or forge further lines, become spaces: bytes
// below 0x20, 0x7f, and U+0080 to U+009f (0xc2 and a byte below 0xa0 in UTF-8). Everything else stays, as do lengths.
inline std::string Printable(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = uint8_t(text[i]);
    const auto next = uint8_t(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte < 0x20 || byte == 0x7f) text[i] = ' ';
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) text[i] = text[i + 1] = ' ';
  }
  return text;
}

}  // namespace winnow
