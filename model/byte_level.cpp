#include "model/byte_level.h"

#include <array>

namespace winnow {
namespace {

// Printable Latin-1 stands for itself, all other bytes follow from U+0100 on in ascending order.
bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

constexpr int kNumCharacters = 0x100 + 68;  // 68 bytes do not stand for themselves

struct Tables {
  std::array<uint16_t, 256> character;       // of a byte
  std::array<int16_t, kNumCharacters> byte;  // of a character, -1: none

  Tables() {
    byte.fill(-1);
    uint16_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      character[size_t(b)] = StandsForItself(b) ? uint16_t(b) : next++;
      byte[character[size_t(b)]] = int16_t(b);
    }
  }
};

const Tables& GetTables() {
  static const Tables tables;
  return tables;
}

}  // namespace

std::string ByteLevelCharacter(uint8_t byte) {
  const uint16_t character = GetTables().character[byte];
  if (character < 0x80) return std::string(1, char(character));
  return {char(0xc0 | (character >> 6)), char(0x80 | (character & 0x3f))};  // all are below U+0800
}

std::optional<std::string> ByteLevelToBytes(std::string_view spelling) {
  std::string bytes;
  for (size_t i = 0; i < spelling.size(); ++i) {
    int character = uint8_t(spelling[i]);
    if (character >= 0x80) {
      // Two bytes, since no character of the alphabet is above U+07FF.
      if (character < 0xc2 || character > 0xdf || i + 1 == spelling.size()) return std::nullopt;
      const int second = uint8_t(spelling[++i]);
      if (second < 0x80 || second > 0xbf) return std::nullopt;
      character = (character & 0x1f) << 6 | (second & 0x3f);
    }
    if (character >= kNumCharacters || GetTables().byte[size_t(character)] < 0) return std::nullopt;
    bytes.push_back(char(GetTables().byte[size_t(character)]));
  }
  return bytes;
}

}  // namespace winnow
