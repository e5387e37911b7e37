// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a counter-based generator.
// A random number is a pure function of (key, counter), so it never depends on call order, rank or thread.
#pragma once

#include <array>
#include <cstdint>

namespace winnow {

using PhiloxBlock = std::array<uint32_t, 4>;

// Ten rounds over `counter` under the 64-bit `key`.
inline constexpr PhiloxBlock Philox(uint64_t key, PhiloxBlock counter) {
  uint32_t key_low = uint32_t(key), key_high = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t(0xD2511F53u) * counter[0];
    const uint64_t product1 = uint64_t(0xCD9E8D57u) * counter[2];
    counter = {uint32_t(product1 >> 32) ^ counter[1] ^ key_low, uint32_t(product1),
               uint32_t(product0 >> 32) ^ counter[3] ^ key_high, uint32_t(product0)};
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return counter;
}

// What a random number is for. Part of the counter, so that purposes never share numbers.
enum class RandomPurpose : uint32_t {
  kSampling = 1,
  kRandomEviction = 2,
  kTestWeights = 3,
  kSeed = 4,
  kBootstrap = 5,
  kEvalTask = 6,
  kDummyWeights = 7
};

// A float in (0, 1): the middle of one of 2^23 equal cells, exact in float, so it is never 0 or 1 and its log is
// finite.
inline constexpr float OpenUnitFloat(uint32_t bits) {
  return (float(bits >> 9) + 0.5f) * 0x1p-23f;
}

}  // namespace winnow
