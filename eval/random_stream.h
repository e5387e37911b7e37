// Random numbers for generated samples: a stream is named by what it is for, so that a sample is the same whatever else
// was drawn before it, on any rank. One thread per stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/philox.h"

namespace winnow {

class RandomStream {
 public:
  // task and part: which stream of a sample. All four name it; equal names give equal numbers.
  RandomStream(uint64_t seed, uint32_t task, uint32_t sample, uint32_t part)
      : seed_(seed), task_(task), sample_(sample), part_(part) {}

  // 0 <= number < count. The probability of each number is right to count / 2^32.
  int64_t Below(int64_t count);

  // `count` different numbers below `limit`, in random order.
  std::vector<int64_t> Sample(int64_t limit, int64_t count);

  template <class T>
  void Shuffle(std::vector<T>* values) {
    for (size_t i = values->size(); i > 1; --i) std::swap((*values)[i - 1], (*values)[size_t(Below(int64_t(i)))]);
  }

  std::string Letters(char first, int64_t count);  // of the 26 from `first` on: 'a' or 'A'
  std::string Digits(int64_t count);               // a number that does not begin with 0
  std::string Uuid();                              // version 4, as text

 private:
  uint32_t Next();

  uint64_t seed_;
  uint32_t task_, sample_, part_;
  uint32_t drawn_ = 0;
  PhiloxBlock block_{};
};

}  // namespace winnow
