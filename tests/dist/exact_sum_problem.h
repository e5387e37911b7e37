// A row-parallel product whose sum crosses ranks, and one rank's part of computing it with ExactSum.
#pragma once

#include <vector>

#include "dist/communicator.h"
#include "dist/shard.h"

namespace winnow {

constexpr int64_t kRows = 4, kOutputs = 24, kSegment = 64, kNumSegments = 12, kInputs = kSegment * kNumSegments;

// residual [rows, outputs] += x [rows, inputs] times weight [outputs, inputs].
struct ExactSumProblem {
  std::vector<float> x, weight, residual;
};

// Random and the same on every rank.
ExactSumProblem MakeExactSumProblem(uint32_t seed);

// This rank owns `segments` of the inputs. Returns the bits of the whole residual [rows * outputs]. Collective.
std::vector<uint32_t> RunExactSum(Communicator& communicator, const ExactSumProblem& problem, Range segments);

// The part of `rank` if all are as even as they go.
inline Range EvenSegments(int rank, int num_ranks) {
  return {kNumSegments * rank / num_ranks, kNumSegments * (rank + 1) / num_ranks};
}

}  // namespace winnow
