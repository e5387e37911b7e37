// The seed of a run that was given none. Rank 0 draws it and says it, so that the run can be repeated. Any thread.
#pragma once

#include <cstdint>
#include <random>

namespace winnow {

// Below 2^53: readers of the JSON output often hold numbers as doubles.
inline uint64_t DrawSeed() {
  std::random_device device;
  return (uint64_t(device()) << 32 | device()) & ((uint64_t(1) << 53) - 1);
}

}  // namespace winnow
