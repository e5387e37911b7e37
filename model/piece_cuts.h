// Where a text may be cut without changing what BPE makes of it: between two characters that stand side by side in no
// token, since no merge can then join them. SentencePiece's BPE takes a whole text as one piece; cut like this it costs
// as much as short pieces do, and they repeat. Filled once by its owner, the Tokenizer, then immutable: any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace winnow {

class PieceCuts {
 public:
  // Notes the neighbours in a token that merges can make. Valid UTF-8.
  void AddToken(std::string_view token) {
    ForEachPair(token, [this](uint64_t place, size_t) {
      if (neighbours_.empty()) neighbours_.resize(kNumBits / 64);
      neighbours_[place / 64] |= uint64_t(1) << (place % 64);
      return false;
    });
  }

  // The bytes of the first piece of `text` (valid UTF-8). Neighbours that share the place of others stay together:
  // fewer cuts, the same ids.
  size_t FirstPiece(std::string_view text) const {
    size_t end = text.size();
    ForEachPair(text, [&](uint64_t place, size_t border) {
      if (!neighbours_.empty() && (neighbours_[place / 64] >> (place % 64) & 1) != 0) return false;
      end = border;
      return true;
    });
    return end;
  }

 private:
  static constexpr uint64_t kNumBits = uint64_t(1) << 20;  // 128 KiB; a vocabulary of 32,000 takes about 1 % of them

  // Calls visit(place, offset of the second character) for all neighbours until it returns true.
  template <class F>
  static void ForEachPair(std::string_view text, F&& visit) {
    uint64_t previous = 0;
    for (size_t begin = 0; begin < text.size();) {
      uint64_t character = uint8_t(text[begin]);
      size_t end = begin + 1;
      for (; end < text.size() && (uint8_t(text[end]) & 0xc0) == 0x80; ++end)
        character = character << 8 | uint8_t(text[end]);
      if (begin > 0 && visit(Mix64(previous << 32 | character) % kNumBits, begin)) return;
      previous = character;
      begin = end;
    }
  }

  std::vector<uint64_t> neighbours_;
};

}  // namespace winnow
