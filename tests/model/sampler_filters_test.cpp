// Which tokens top_k, top_p, min_p and the temperature leave, against sets made in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tests/model/sampler_rows.h"

namespace winnow {
namespace {

// The set that the filters leave, in double. Fails where rounding could decide.
std::set<int32_t> NaiveSet(const Logits& logits, const SamplingParams& params) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
  if (params.top_k > 0) order.resize(std::min(order.size(), size_t(params.top_k)));
  std::vector<double> masses;
  for (int32_t id : order) {
    masses.push_back(std::exp((double(logits[size_t(id)]) - double(logits[size_t(order[0])])) / params.temperature));
  }
  const double total = std::accumulate(masses.begin(), masses.end(), 0.0);
  std::set<int32_t> set;
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool reached = params.top_p < 1 && sum / total >= params.top_p;
    EXPECT_GT(std::abs(sum / total - params.top_p), 1e-5);
    EXPECT_GT(std::abs(masses[i] - params.min_p), 1e-5);
    if (!reached && masses[i] >= params.min_p) set.insert(order[i]);
    sum += masses[i];
  }
  return set;
}

void ExpectExactlyTheNaiveSet(const SamplingParams& params) {
  const Logits logits = {0.9f, 2.1f, -0.4f, 1.7f, 0.1f, -1.2f, 2.6f, 0.5f, -0.9f, 1.3f, -0.1f, 1.1f};
  const std::set<int32_t> expected = NaiveSet(logits, params);
  ASSERT_LT(expected.size(), logits.size());
  for (int num_ranks : {1, 3}) {
    // The rarest token has a probability above 0.5 %: 4,000 draws miss it once in 10^8.
    const auto tokens = Tokens(SampleOn(num_ranks, Positions(logits, params, 4000)));
    EXPECT_EQ(std::set<int32_t>(tokens.begin(), tokens.end()), expected) << num_ranks << " ranks";
  }
}

TEST(SamplerFilters, TopKLeavesTheMostProbableTokens) {
  for (int32_t k : {1, 2, 5, 11}) ExpectExactlyTheNaiveSet({.temperature = 1.3f, .top_k = k});
}
TEST(SamplerFilters, TopPLeavesTheSmallestSetThatReachesTheMass) {
  for (float p : {0.01f, 0.3f, 0.5f, 0.9f, 0.95f}) ExpectExactlyTheNaiveSet({.temperature = 1.0f, .top_p = p});
}
TEST(SamplerFilters, TopPIsJudgedAfterTheTemperature) {
  ExpectExactlyTheNaiveSet({.temperature = 2.0f, .top_p = 0.5f});
  ExpectExactlyTheNaiveSet({.temperature = 0.7f, .top_p = 0.5f});
}
TEST(SamplerFilters, MinPDropsTokensBelowItsShareOfTheMostProbable) {
  for (float p : {0.05f, 0.2f, 0.5f, 0.99f}) ExpectExactlyTheNaiveSet({.temperature = 1.0f, .min_p = p});
}
TEST(SamplerFilters, FiltersApplyInOrderTopKTopPMinP) {
  ExpectExactlyTheNaiveSet({.temperature = 1.1f, .top_k = 6, .top_p = 0.8f, .min_p = 0.1f});
  ExpectExactlyTheNaiveSet({.temperature = 1.5f, .top_k = 9, .top_p = 0.6f, .min_p = 0.35f});
}
TEST(SamplerFilters, OfTiedTokensTopKLeavesTheLowerIds) {
  const Logits logits = {0, 1, 1, 0, 1, 1, 1, 0, 1};
  for (int num_ranks : {1, 2, 3}) {
    const auto tokens = Tokens(SampleOn(num_ranks, Positions(logits, {.temperature = 1, .top_k = 3}, 500)));
    EXPECT_EQ(std::set<int32_t>(tokens.begin(), tokens.end()), (std::set<int32_t>{1, 2, 4}));
  }
}
TEST(SamplerFilters, TopKAboveTheVocabularyChangesNothing) {
  const Logits logits = RandomLogits(1, 50, 2);
  ExpectSameTokens(SampleOn(2, Positions(logits, {.temperature = 1, .top_k = 1000}, 50)),
                   SampleOn(2, Positions(logits, {.temperature = 1}, 50)));
}

}  // namespace
}  // namespace winnow
