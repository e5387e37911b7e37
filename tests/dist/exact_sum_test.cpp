#include "dist/exact_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/dist/exact_sum_problem.h"

namespace winnow {
namespace {

// Which segments each rank owns.
using Split = std::vector<Range>;

Split EvenSplit(int num_ranks) {
  Split split;
  for (int rank = 0; rank < num_ranks; ++rank) split.push_back(EvenSegments(rank, num_ranks));
  return split;
}

// The residual after the product, as every rank has it: [rank][rows * outputs] bits.
std::vector<std::vector<uint32_t>> RunSplit(const ExactSumProblem& problem, const Split& split) {
  std::vector<std::vector<uint32_t>> results(split.size());
  RunThreadRanks(int(split.size()), [&](Communicator& communicator) {
    results[communicator.rank()] = RunExactSum(communicator, problem, split[communicator.rank()]);
    if (communicator.size() > 1) {
      EXPECT_EQ(communicator.counters().calls, 1);
      EXPECT_EQ(communicator.counters().payload_bytes, kRows * (kOutputs + 1) * 8);
    }
  });
  return results;
}

std::vector<uint32_t> RunOnOneRank(const ExactSumProblem& problem) {
  return RunSplit(problem, EvenSplit(1)).front();
}

// The control: float partials of the ranks added in rank order.
std::vector<uint32_t> FloatSums(const ExactSumProblem& problem, const Split& split) {
  std::vector<uint32_t> bits;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t n = 0; n < kOutputs; ++n) {
      float sum = 0;
      for (const Range& segments : split) {
        float partial = 0;
        for (int64_t k = segments.begin * kSegment; k < segments.end * kSegment; ++k) {
          partial += problem.x[row * kInputs + k] * problem.weight[n * kInputs + k];
        }
        sum += partial;
      }
      bits.push_back(std::bit_cast<uint32_t>(problem.residual[row * kOutputs + n] + sum));
    }
  }
  return bits;
}

bool IsNanRow(const std::vector<uint32_t>& bits, int64_t row) {
  for (int64_t n = 0; n < kOutputs; ++n) {
    if (!std::isnan(std::bit_cast<float>(bits[row * kOutputs + n]))) return false;
  }
  return true;
}

std::vector<uint32_t> Row(const std::vector<uint32_t>& bits, int64_t row) {
  return {bits.begin() + row * kOutputs, bits.begin() + (row + 1) * kOutputs};
}

TEST(ExactSumOverThreadRanks, GivesTheSameBitsForEveryRankCount) {
  for (uint32_t seed = 0; seed < 5; ++seed) {
    const ExactSumProblem problem = MakeExactSumProblem(seed);
    const auto expected = RunOnOneRank(problem);
    for (int num_ranks : {1, 2, 3, 5}) {
      for (const auto& result : RunSplit(problem, EvenSplit(num_ranks))) EXPECT_EQ(result, expected) << num_ranks;
    }
  }
}

TEST(ExactSumOverThreadRanks, GivesTheSameBitsForEverySplit) {
  const ExactSumProblem problem = MakeExactSumProblem(1);
  const auto expected = RunOnOneRank(problem);
  for (int64_t cut = 1; cut < kNumSegments; ++cut) {
    for (const auto& result : RunSplit(problem, {{0, cut}, {cut, kNumSegments}})) EXPECT_EQ(result, expected) << cut;
  }
  for (const auto& result : RunSplit(problem, {{9, 12}, {0, 1}, {1, 9}})) EXPECT_EQ(result, expected);
}

// Shows that the two tests above can fail.
TEST(ExactSumOverThreadRanks, FloatSumsWouldDependOnTheRankCount) {
  const ExactSumProblem problem = MakeExactSumProblem(1);
  EXPECT_NE(FloatSums(problem, EvenSplit(1)), FloatSums(problem, EvenSplit(2)));
  EXPECT_NE(FloatSums(problem, EvenSplit(2)), FloatSums(problem, EvenSplit(3)));
}

TEST(ExactSumOverThreadRanks, IsTheProductToWithinFloatRounding) {
  const ExactSumProblem problem = MakeExactSumProblem(2);
  const auto bits = RunOnOneRank(problem);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t n = 0; n < kOutputs; ++n) {
      double exact = problem.residual[row * kOutputs + n];
      for (int64_t k = 0; k < kInputs; ++k) {
        exact += double(problem.x[row * kInputs + k]) * problem.weight[n * kInputs + k];
      }
      EXPECT_NEAR(std::bit_cast<float>(bits[row * kOutputs + n]), exact, 1e-4);
    }
  }
}

TEST(ExactSumOverThreadRanks, LargePartialsOfOppositeSignCancelExactly) {
  ExactSumProblem problem = MakeExactSumProblem(3);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t k = 0; k < kInputs; ++k) problem.x[row * kInputs + k] = 0;
    problem.x[row * kInputs] = 1000;                 // first segment
    problem.x[row * kInputs + kInputs - 1] = -1000;  // last segment
  }
  for (int64_t n = 0; n < kOutputs; ++n) {
    problem.weight[n * kInputs] = 1000;
    problem.weight[n * kInputs + kInputs - 1] = 1000;
  }
  const auto results = RunSplit(problem, EvenSplit(2));
  for (const auto& bits : results) {
    for (int64_t i = 0; i < kRows * kOutputs; ++i) EXPECT_EQ(std::bit_cast<float>(bits[i]), problem.residual[i]);
  }
}

// A row that one rank alone sees fail becomes NaN on every rank; its neighbours keep their bits.
void ExpectOnlyRowFails(int64_t bad_row, const std::function<void(ExactSumProblem&)>& spoil) {
  const ExactSumProblem good = MakeExactSumProblem(4);
  ExactSumProblem bad = good;
  spoil(bad);
  const auto expected = RunOnOneRank(good);
  for (int num_ranks : {1, 2, 3, 5}) {
    for (const auto& result : RunSplit(bad, EvenSplit(num_ranks))) {
      for (int64_t row = 0; row < kRows; ++row) {
        if (row == bad_row) {
          EXPECT_TRUE(IsNanRow(result, row)) << num_ranks << " ranks";
        } else {
          EXPECT_EQ(Row(result, row), Row(expected, row)) << num_ranks << " ranks, row " << row;
        }
      }
    }
  }
}

TEST(ExactSumOverThreadRanks, NanMarksItsRowOnAllRanks) {
  ExpectOnlyRowFails(1, [](ExactSumProblem& p) { p.x[1 * kInputs + kInputs - 1] = std::nanf(""); });
}
TEST(ExactSumOverThreadRanks, InfinityMarksItsRowOnAllRanks) {
  ExpectOnlyRowFails(0, [](ExactSumProblem& p) { p.x[5] = std::numeric_limits<float>::infinity(); });
}
TEST(ExactSumOverThreadRanks, PartialsOutOfRangeMarkTheirRowOnAllRanks) {
  ExpectOnlyRowFails(2, [](ExactSumProblem& p) { p.x[2 * kInputs + 3 * kSegment] = -1e10f; });
}

TEST(ExactSumOverThreadRanks, ALargePartialInRangeIsNoFailure) {
  ExactSumProblem problem = MakeExactSumProblem(5);
  for (int64_t n = 0; n < kOutputs; ++n) problem.weight[n * kInputs] = 1;
  problem.x[0] = 0x1.fp19f;  // below 2^20
  for (const auto& result : RunSplit(problem, EvenSplit(2))) EXPECT_FALSE(IsNanRow(result, 0));
}

}  // namespace
}  // namespace winnow
