#include "kv/query_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/philox.h"

namespace winnow {
namespace {

constexpr int64_t kLayers = 2, kHeads = 2, kGroup = 3, kDim = 8, kTokens = 11;
constexpr double kFrequencies[kDim / 2] = {1.0, 0.3, 0.1, 0.01};

// [layer][rows][head][group][dim] of the tokens from `first` on; each number is a function of what it is of.
std::vector<float> Queries(int64_t first, int64_t rows) {
  std::vector<float> queries;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    for (int64_t row = first; row < first + rows; ++row) {
      for (int64_t i = 0; i < kHeads * kGroup * kDim; ++i) {
        queries.push_back(OpenUnitFloat(Philox(1, {uint32_t(layer), uint32_t(row), uint32_t(i), 0})[0]) - 0.5f);
      }
    }
  }
  return queries;
}

void Add(QuerySums& sums, int64_t first, int64_t rows) {
  std::vector<int64_t> positions(static_cast<size_t>(rows));
  std::iota(positions.begin(), positions.end(), first);
  sums.Add(positions, kFrequencies, Queries(first, rows));
}

std::vector<double> Copy(std::span<const double> sums) {
  return {sums.begin(), sums.end()};
}

TEST(QuerySums, AddUpTheUnrotatedQueriesAndTheirProducts) {
  QuerySums sums(kLayers, kHeads);
  EXPECT_TRUE(sums.head(0, 0).empty());
  Add(sums, 0, kTokens);
  EXPECT_EQ(sums.num_queries(), kTokens);
  EXPECT_EQ(sums.group(), kGroup);
  const std::vector<float> queries = Queries(0, kTokens);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    for (int64_t head = 0; head < kHeads; ++head) {
      std::vector<double> expected(kGroup * kDim * (kDim + 1), 0.0);
      for (int64_t token = 0; token < kTokens; ++token) {
        for (int64_t g = 0; g < kGroup; ++g) {
          const float* q = queries.data() + (((layer * kTokens + token) * kHeads + head) * kGroup + g) * kDim;
          double x[kDim];
          for (int64_t i = 0; i < kDim / 2; ++i) {
            const double c = std::cos(double(token) * kFrequencies[i]), s = std::sin(double(token) * kFrequencies[i]);
            x[i] = q[i] * c + q[i + kDim / 2] * s;
            x[i + kDim / 2] = q[i + kDim / 2] * c - q[i] * s;
          }
          for (int64_t i = 0; i < kDim; ++i) {
            expected[size_t(g * kDim + i)] += x[i];
            for (int64_t j = i; j < kDim; ++j) {
              expected[size_t(kGroup * kDim + (g * kDim + i) * kDim + j)] += x[i] * x[j];
            }
          }
        }
      }
      const auto found = sums.head(layer, head);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-12) << i;
    }
  }
}

TEST(QuerySums, StepsOfAnySizeGiveTheSameBits) {
  QuerySums at_once(kLayers, kHeads);
  Add(at_once, 0, kTokens);
  for (int64_t step : {1, 2, 5}) {
    QuerySums stepwise(kLayers, kHeads);
    for (int64_t first = 0; first < kTokens; first += step) Add(stepwise, first, std::min(step, kTokens - first));
    EXPECT_EQ(Copy(stepwise.head(1, 1)), Copy(at_once.head(1, 1)));
    EXPECT_EQ(Copy(stepwise.head(0, 1)), Copy(at_once.head(0, 1)));
  }
}

TEST(QuerySums, ClearForgetsThem) {
  QuerySums sums(kLayers, kHeads), fresh(kLayers, kHeads);
  Add(sums, 0, 4);
  sums.Clear();
  EXPECT_EQ(sums.num_queries(), 0);
  EXPECT_EQ(sums.group(), 0);
  Add(sums, 4, 3);
  Add(fresh, 4, 3);
  EXPECT_EQ(Copy(sums.head(1, 0)), Copy(fresh.head(1, 0)));
}

TEST(QuerySumsDeathTest, QueriesOfAnotherSizeEndTheProgram) {
  QuerySums sums(kLayers, kHeads);
  Add(sums, 0, 2);
  const std::vector<int64_t> positions = {2, 3};
  EXPECT_DEATH(sums.Add(positions, kFrequencies, std::span<const float>(Queries(2, 2)).subspan(1)), "check failed");
  EXPECT_DEATH(sums.Add(positions, kFrequencies, std::vector<float>(kLayers * 2 * kHeads * kDim)), "check failed");
}

}  // namespace
}  // namespace winnow
