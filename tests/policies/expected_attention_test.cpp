// Expected Attention and the statistics that it scores with, against plain loops in double precision. The NumPy
// oracle's results are in policy_golden_test.cpp.
#include "policies/expected_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/philox.h"
#include "kv/query_sums.h"
#include "policies/query_statistics.h"

namespace winnow {
namespace {

using testing::Each;

constexpr int64_t kGroup = 2, kDim = 20;  // no multiple of 16
constexpr double kEpsilon = 0.01;
using Vector = std::vector<double>;

std::vector<float> Random(uint64_t seed, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(OpenUnitFloat(Philox(seed, {uint32_t(i), 0, 0, 0})[0]) - 0.5f);
  return values;
}

// Pairs (i, i + d / 2) of x turned by position * frequency.
Vector Rotated(const Vector& x, double position, const Vector& frequencies) {
  Vector out(x.size());
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double c = std::cos(position * frequencies[i]), s = std::sin(position * frequencies[i]);
    const double a = x[i], b = x[i + frequencies.size()];
    out[i] = a * c - b * s;
    out[i + frequencies.size()] = b * c + a * s;
  }
  return out;
}

// One head: slots at `positions`, a window of queries that are no neighbours everywhere.
class ExpectedAttention : public testing::Test {
 protected:
  ExpectedAttention() {
    for (int64_t i = 0; i < kDim / 2; ++i) frequencies_.push_back(std::pow(10000.0, -2.0 * double(i) / double(kDim)));
    for (int32_t position = 0; position < 60; ++position) {
      if (position < 10 || position > 20) positions_.push_back(position);
    }
    keys_ = Random(1, int64_t(positions_.size()) * kDim);
    for (float& key : keys_) key *= 8;
    values_ = Random(2, int64_t(positions_.size()) * kDim);
    for (int64_t position : {2, 3, 7, 30, 31, 32, 33, 40, 41, 59}) query_positions_.push_back(position);
    const std::vector<float> unrotated = Random(3, int64_t(query_positions_.size()) * kGroup * kDim);
    for (size_t row = 0; row < query_positions_.size() * kGroup; ++row) {
      const Vector x(unrotated.begin() + int64_t(row) * kDim, unrotated.begin() + int64_t(row + 1) * kDim);
      unrotated_.push_back(x);
      for (double value : Rotated(x, double(query_positions_[row / kGroup]), frequencies_)) {
        queries_.push_back(float(value));
      }
    }
  }

  HeadView View() const {
    return {.layer = 0,
            .global_head = 0,
            .positions = positions_,
            .mass = {},
            .keys = keys_,
            .head_dim = kDim,
            .queries = queries_,
            .query_positions = query_positions_,
            .group = kGroup,
            .values = values_,
            .rotary_frequencies = frequencies_,
            .recent_begin = int64_t(positions_.size()),
            .tokens_seen = 60,
            .prompt_tokens = 10,
            .eviction_index = 0,
            .seed = 1,
            .choice_index = 0};
  }

  // Straight from the paper: rotations of every future position are added up, statistics are turned by their mean.
  std::vector<double> ByHand() const {
    std::vector<double> weights(positions_.size(), 0.0);
    for (int64_t g = 0; g < kGroup; ++g) {
      std::vector<Vector> queries;
      for (size_t row = 0; row < query_positions_.size(); ++row) {
        if (query_positions_[row] >= 4) queries.push_back(unrotated_[row * kGroup + size_t(g)]);
      }
      Vector mean(kDim, 0.0);
      for (const Vector& x : queries) {
        for (size_t i = 0; i < kDim; ++i) mean[i] += x[i] / double(queries.size());
      }
      // R' k, so that z = mean . R'k + (R'k)' covariance (R'k) / 2.
      Vector logits;
      for (size_t slot = 0; slot < positions_.size(); ++slot) {
        Vector key(kDim, 0.0);
        const Vector stored(keys_.begin() + int64_t(slot * kDim), keys_.begin() + int64_t((slot + 1) * kDim));
        for (int64_t future = 60; future < 60 + 512; ++future) {
          const Vector turned = Rotated(stored, -double(future), frequencies_);
          for (size_t i = 0; i < kDim; ++i) key[i] += turned[i] / 512;
        }
        double z = std::inner_product(mean.begin(), mean.end(), key.begin(), 0.0);
        for (const Vector& x : queries) {
          double product = 0;
          for (size_t i = 0; i < kDim; ++i) product += (x[i] - mean[i]) * key[i];
          z += product * product / double(queries.size()) / 2;
        }
        logits.push_back(z);
      }
      double sum = 0;
      for (size_t slot = 0; slot < logits.size(); ++slot) sum += positions_[slot] < 4 ? 0 : std::exp(logits[slot]);
      for (size_t slot = 0; slot < logits.size(); ++slot) weights[slot] += std::exp(logits[slot]) / sum / kGroup;
    }
    for (size_t slot = 0; slot < positions_.size(); ++slot) {
      double squares = 0;
      for (size_t i = 0; i < kDim; ++i) squares += std::pow(values_[slot * kDim + i], 2);
      weights[slot] = (weights[slot] + kEpsilon) * std::sqrt(squares);
    }
    return weights;
  }

  static std::vector<float> Scores(const HeadView& view, const ExpectedAttentionSettings& settings = {}) {
    std::vector<float> scores(view.positions.size());
    MakeExpectedAttention(settings)->Score(view, scores);
    return scores;
  }

  std::vector<int32_t> positions_;
  std::vector<int64_t> query_positions_;
  std::vector<float> keys_, values_, queries_;
  std::vector<Vector> unrotated_;  // [row * group + query head]
  Vector frequencies_;
};

TEST_F(ExpectedAttention, ScoresAreThoseOfThePapersFormula) {
  const std::vector<float> scores = Scores(View());
  const std::vector<double> expected = ByHand();
  for (size_t slot = 0; slot < scores.size(); ++slot) {
    EXPECT_NEAR(scores[slot], expected[slot], 1e-6 + 1e-5 * expected[slot]) << "slot " << slot;
  }
  const auto [least, most] = std::minmax_element(expected.begin() + 4, expected.end());
  EXPECT_GT(*most, 4 * *least) << "the case does not tell slots apart";
}

TEST_F(ExpectedAttention, SumsOverThePromptGiveTheStatisticsOfTheQueriesThemselves) {
  QuerySums sums(1, 1);
  const auto begin = std::lower_bound(query_positions_.begin(), query_positions_.end(), 4);
  const int64_t first = begin - query_positions_.begin();
  sums.Add(std::span(query_positions_).subspan(size_t(first)), frequencies_,
           std::span(queries_).subspan(size_t(first * kGroup * kDim)));
  HeadView view = View();
  const std::vector<float> by_window = Scores(view);
  view.queries = {};
  view.query_positions = {};
  view.query_moments = {.num_queries = sums.num_queries(), .sums = sums.head(0, 0)};
  const std::vector<float> by_sums = Scores(view, {.timing = EvictionTiming::kAfterPrefill});
  for (size_t slot = 0; slot < by_sums.size(); ++slot) EXPECT_NEAR(by_sums[slot], by_window[slot], 1e-6);
}

TEST_F(ExpectedAttention, WithoutQueriesBehindTheSinksOnlyValuesCount) {
  query_positions_.assign({2, 3});
  queries_.resize(2 * kGroup * kDim);
  const std::vector<float> scores = Scores(View());
  std::fill(values_.begin(), values_.end(), 1.0f);
  const std::vector<float> alike = Scores(View());
  EXPECT_THAT(alike, Each(alike[0]));
  EXPECT_NE(scores[5], scores[6]);
}

TEST_F(ExpectedAttention, EpsilonWeighsTheValueWhereNobodyWillLook) {
  const HeadView view = View();
  const std::vector<float> none = Scores(view, {.epsilon = 0}), one = Scores(view, {.epsilon = 1});
  for (size_t slot = 0; slot < none.size(); ++slot) {
    double squares = 0;
    for (size_t i = 0; i < kDim; ++i) squares += std::pow(values_[slot * kDim + i], 2);
    EXPECT_NEAR(one[slot] - none[slot], std::sqrt(squares), 1e-6);
  }
}

TEST_F(ExpectedAttention, SinksThatStandOutDoNotDrownTheOthers) {
  const std::vector<float> before = Scores(View());
  for (int64_t i = 0; i < kDim; ++i) keys_[size_t(i)] *= 100;
  const std::vector<float> after = Scores(View());
  EXPECT_TRUE(std::equal(before.begin() + 1, before.end(), after.begin() + 1));
  EXPECT_TRUE(std::isfinite(after[0]));
}

TEST_F(ExpectedAttention, WhatIsNotFiniteScoresNothingAndNeverNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (float bad : {nan, infinity, -infinity}) {
    for (std::vector<float>* where : {&keys_, &values_, &queries_}) {
      const float good = std::exchange((*where)[where->size() - 3], bad);
      EXPECT_THAT(Scores(View()), Each(testing::Not(testing::IsNan())));
      (*where)[where->size() - 3] = good;
    }
  }
}

using ExpectedAttentionDeathTest = ExpectedAttention;

TEST_F(ExpectedAttentionDeathTest, ViewsThatLackWhatItObservesEndTheProgram) {
  HeadView view = View();
  view.values = {};
  EXPECT_DEATH(Scores(view), "check failed");
  view = View();
  view.keys = {};
  EXPECT_DEATH(Scores(view), "check failed");
  view = View();
  view.rotary_frequencies = {};
  EXPECT_DEATH(Scores(view), "check failed");
  view = View();
  view.query_positions = view.query_positions.first(3);
  EXPECT_DEATH(Scores(view), "check failed");
}

TEST_F(ExpectedAttention, AsksForWhatItsFormNeeds) {
  const Observations chunked = MakePolicy("expected-attention").value()->observations();
  EXPECT_TRUE(chunked.queries && chunked.window_spans_evictions && !chunked.query_moments);
  EXPECT_EQ(chunked.window_tokens, 256);
  const Observations once = MakePolicy("expected-attention-prefill").value()->observations();
  EXPECT_TRUE(!once.queries && once.query_moments && !once.has_window());
  EXPECT_EQ(once.moments_begin, 4);
}

TEST(ExpectedLogits, AreTheQuadraticFormWhateverTheNumberOfSlots) {
  QueryStatistics statistics{.group = 1, .dims = 32, .mean = Random(5, 32), .form = Random(6, 32 * 32)};
  for (int64_t i = 0; i < 32; ++i) std::fill_n(statistics.form.begin() + i * 32, i, 0.0f);
  for (int64_t slots : {1, 15, 16, 17, 40}) {
    const std::vector<float> keys = Random(7, slots * 32);
    const std::vector<float> logits = ExpectedLogits(statistics, 0, SlotTiles(keys, 32));
    ASSERT_EQ(int64_t(logits.size()), (slots + 15) / 16 * 16);
    for (int64_t slot = 0; slot < slots; ++slot) {
      const float* key = keys.data() + slot * 32;
      double expected = 0;
      for (int64_t i = 0; i < 32; ++i) {
        expected += double(key[i]) * double(statistics.mean[size_t(i)]);
        for (int64_t j = i; j < 32; ++j) {
          expected += double(key[i]) * double(statistics.form[size_t(i * 32 + j)]) * double(key[j]);
        }
      }
      EXPECT_NEAR(logits[size_t(slot)], expected, 1e-5);
    }
  }
}

}  // namespace
}  // namespace winnow
