// 64-bit mixing, used to compare tokens and kept sets over ranks. Not cryptographic. Any thread.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace winnow {

// splitmix64's finaliser (Steele, Lea, Flood 2014): every input bit reaches every output bit.
inline constexpr uint64_t Mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Depends on the order of the words.
inline constexpr uint64_t HashWords(std::initializer_list<uint64_t> words) {
  uint64_t hash = 0;
  for (uint64_t word : words) hash = Mix64(hash ^ word);
  return hash;
}

}  // namespace winnow
