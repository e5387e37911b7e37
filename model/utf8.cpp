#include "model/utf8.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace winnow {
namespace {

// What may follow a lead byte: the range of the first continuation byte; the others are always 80..BF.
struct LeadByte {
  size_t num_bytes;  // of the code point; 0: no lead byte
  uint8_t low, high;
};

LeadByte Classify(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};  // continuation bytes, and leads of overlong forms
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};  // below: overlong
  if (byte == 0xed) return {3, 0x80, 0x9f};  // above: surrogates
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};  // below: overlong
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};  // above: past U+10FFFF
  return {0, 0, 0};
}

}  // namespace

Utf8Unit FirstUtf8Unit(std::string_view text) {
  WINNOW_DCHECK(!text.empty());
  LeadByte lead = Classify(uint8_t(text[0]));
  if (lead.num_bytes == 0) return {Utf8Kind::kInvalid, 1};
  for (size_t i = 1; i < lead.num_bytes; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, i};
    const uint8_t byte = uint8_t(text[i]);
    if (byte < lead.low || byte > lead.high) return {Utf8Kind::kInvalid, i};
    lead.low = 0x80;
    lead.high = 0xbf;
  }
  return {Utf8Kind::kValid, lead.num_bytes};
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    // Eight ASCII bytes at a time: most texts are mostly ASCII.
    uint64_t word = 0;
    while (text.size() - position >= sizeof word) {
      std::memcpy(&word, text.data() + position, sizeof word);
      if ((word & 0x8080808080808080ull) != 0) break;
      position += sizeof word;
    }
    if (position == text.size()) break;
    const Utf8Unit unit = FirstUtf8Unit(text.substr(position));
    if (unit.kind != Utf8Kind::kValid) return position;
    position += unit.num_bytes;
  }
  return std::nullopt;
}

}  // namespace winnow
