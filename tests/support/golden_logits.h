// Reads the golden logits of tests/golden (its README has the layout): token sequences, the truth's largest logits at
// every position, and all logits at a few.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace winnow {

struct GoldenTop {
  float log_sum_exp;         // over the whole vocabulary
  std::vector<int32_t> ids;  // the largest logits, largest first
  std::vector<float> logits;
};

struct GoldenFull {
  uint32_t sequence, token;
  std::vector<float> logits;  // [vocab]
};

struct GoldenLogits {
  std::vector<std::vector<int32_t>> sequences;
  std::vector<std::vector<GoldenTop>> top;  // [sequence][token]
  std::vector<GoldenFull> full;
};

// Aborts the test program if a file is missing or malformed.
GoldenLogits ReadGoldenLogits(const std::string& directory);
std::vector<std::vector<int32_t>> ReadGoldenSequences(const std::string& path);

}  // namespace winnow
