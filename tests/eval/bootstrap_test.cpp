#include "eval/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/hash.h"

namespace winnow {
namespace {

using Interval = std::pair<double, double>;

// Sums of 12 uniform numbers, which are close to normal: mean 0, standard deviation 1.
double NearlyNormal(uint64_t seed) {
  double sum = -6;
  for (uint64_t i = 0; i < 12; ++i) sum += double(HashWords({seed, i}) >> 11) * 0x1p-53;
  return sum;
}

TEST(Bootstrap, OneDocumentIsItsMean) {
  const PairedDocument one{3.5, 7};
  EXPECT_EQ(BootstrapInterval95({&one, 1}, 1), Interval(0.5, 0.5));
}

TEST(Bootstrap, DocumentsThatAgreeLeaveNoDoubt) {
  const std::vector<PairedDocument> documents(9, {-2.5, 10});
  EXPECT_EQ(BootstrapInterval95(documents, 1), Interval(-0.25, -0.25));
}

// Both are drawn once in four times each: far more than the 2.5 % beyond each end.
TEST(Bootstrap, TwoDocumentsThatDisagreeSpanBoth) {
  const std::vector<PairedDocument> documents = {{10, 10}, {-30, 10}};
  EXPECT_EQ(BootstrapInterval95(documents, 1), Interval(-3, 1));
}

// Long documents weigh more: sums over sums, not means of means.
TEST(Bootstrap, IsOfAllPositionsTogether) {
  const std::vector<PairedDocument> documents = {{8, 1}, {0, 7}};
  EXPECT_EQ(BootstrapInterval95(documents, 1), Interval(0, 8));
  const std::vector<PairedDocument> many(40, {8, 1});
  std::vector<PairedDocument> mixed = many;
  mixed.resize(80, {0, 7});
  const auto [low, high] = BootstrapInterval95(mixed, 1);
  EXPECT_GT(low, 0.5);  // 1 is the ratio of sums, 4 the mean of means
  EXPECT_LT(high, 2.0);
}

TEST(Bootstrap, IsSymmetric) {
  std::vector<PairedDocument> documents, negative;
  for (uint64_t i = 0; i < 20; ++i) {
    documents.push_back({NearlyNormal(i) + 0.3, 100});
    negative.push_back({-documents.back().difference_sum, 100});
  }
  const auto [low, high] = BootstrapInterval95(documents, 5);
  EXPECT_EQ(BootstrapInterval95(negative, 5), Interval(-high, -low));
}

// Of many documents the interval is mean +- 1.96 standard errors.
TEST(Bootstrap, ComesCloseToTheNormalIntervalForManyDocuments) {
  std::vector<PairedDocument> documents;
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    const double x = 2 + NearlyNormal(i);
    documents.push_back({5 * x, 5});
    sum += x, squares += x * x;
  }
  const double mean = sum / 400, error = std::sqrt((squares / 400 - mean * mean) / 400);
  for (uint64_t seed : {1u, 2u, 3u}) {
    const auto [low, high] = BootstrapInterval95(documents, seed);
    EXPECT_NEAR(low, mean - 1.96 * error, 0.1 * error);
    EXPECT_NEAR(high, mean + 1.96 * error, 0.1 * error);
  }
}

TEST(Bootstrap, TheSameSeedGivesTheSameInterval) {
  std::vector<PairedDocument> documents;
  for (uint64_t i = 0; i < 12; ++i) documents.push_back({NearlyNormal(i), 3 + int64_t(i)});
  EXPECT_EQ(BootstrapInterval95(documents, 8), BootstrapInterval95(documents, 8));
  EXPECT_NE(BootstrapInterval95(documents, 8), BootstrapInterval95(documents, 9));
}

TEST(BootstrapDeathTest, WithoutDocumentsOrPositionsTheProgramEnds) {
  EXPECT_DEATH(BootstrapInterval95({}, 1), "check failed");
  const PairedDocument empty{0, 0};
  EXPECT_DEATH(BootstrapInterval95({&empty, 1}, 1), "check failed");
}

}  // namespace
}  // namespace winnow
