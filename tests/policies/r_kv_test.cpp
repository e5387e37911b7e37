// R-KV and the sums that it is made of, against plain loops in double precision and by hand. The NumPy oracle's results
// are in policy_golden_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/philox.h"
#include "policies/eviction_policy.h"
#include "policies/key_redundancy.h"
#include "policies/slot_dots.h"

namespace winnow {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;

constexpr double kTiny = 1e-7;

std::vector<float> Random(uint64_t seed, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(OpenUnitFloat(Philox(seed, {uint32_t(i), 0, 0, 0})[0]) - 0.5f);
  return values;
}

TEST(SlotDots, HaveTheBitsOfAPlainLoopForAnyLengthAndStart) {
  for (int64_t dims : {1, 31, 64}) {
    for (int64_t slots : {1, 15, 16, 17, 100}) {
      const std::vector<float> rows = Random(1, kDotRows * dims), keys = Random(2, slots * dims);
      const SlotTiles tiles(keys, dims);
      const int64_t padded = tiles.padded_slots();
      ASSERT_EQ(padded, (slots + 15) / 16 * 16);
      for (int64_t first = 0; first < padded; first += kDotSlots) {
        std::vector<float> out(size_t(kDotRows * padded), 99.0f);
        DotRows(rows.data(), tiles, first, out.data());
        for (int64_t row = 0; row < kDotRows; ++row) {
          for (int64_t slot = 0; slot < padded; ++slot) {
            float sum = 0;
            for (int64_t i = 0; i < dims && slot < slots; ++i) {
              sum = std::fma(rows[size_t(row * dims + i)], keys[size_t(slot * dims + i)], sum);
            }
            ASSERT_EQ(out[size_t(row * padded + slot)], slot < first ? 99.0f : sum)
                << dims << " " << slots << " row " << row << " slot " << slot;
          }
        }
      }
    }
  }
}

std::vector<double> MeanCosinesByHand(const std::vector<float>& keys, int64_t dims, double threshold) {
  const int64_t slots = int64_t(keys.size()) / dims;
  const auto dot = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t i = 0; i < dims; ++i) sum += double(keys[size_t(a * dims + i)]) * double(keys[size_t(b * dims + i)]);
    return sum;
  };
  std::vector<double> means(size_t(slots), 0.0);
  for (int64_t row = 0; row < slots; ++row) {
    std::vector<double> cosines(static_cast<size_t>(slots));
    for (int64_t i = 0; i < slots; ++i) {
      const double norms = (std::sqrt(dot(row, row)) + 1e-8) * (std::sqrt(dot(i, i)) + 1e-8);
      cosines[size_t(i)] = i == row ? 0 : dot(row, i) / norms;
    }
    for (int64_t i = slots; i-- > 0;) {
      if (cosines[size_t(i)] <= threshold) continue;
      cosines[size_t(i)] = 0;
      break;
    }
    for (int64_t i = 0; i < slots; ++i) means[size_t(i)] += cosines[size_t(i)] / double(slots);
  }
  return means;
}

TEST(MeanCosines, AreThoseOfAPlainLoop) {
  for (int64_t slots : {1, 2, 3, 4, 5, 16, 17, 33, 130}) {
    const std::vector<float> keys = Random(uint64_t(slots), slots * 8);  // 8 dimensions: many cosines above 0.5
    const std::vector<double> expected = MeanCosinesByHand(keys, 8, 0.5), means = MeanCosines(keys, 8, 0.5f);
    ASSERT_EQ(means.size(), size_t(slots));
    for (size_t i = 0; i < means.size(); ++i) EXPECT_NEAR(means[i], expected[i], kTiny) << slots << " " << i;
  }
}

TEST(MeanCosines, OfNearDuplicatesTheNewestIsNotCharged) {
  // Three that point the same way, and one across. Row 0 spares column 2, so does row 1; row 2 spares column 1.
  const std::vector<float> keys = {1, 0, 5, 0, 0.1f, 0, 0, 7};
  EXPECT_THAT(MeanCosines(keys, 2, 0.5f),
              ElementsAre(DoubleNear(0.5, kTiny), DoubleNear(0.25, kTiny), DoubleNear(0, kTiny), DoubleNear(0, kTiny)));
  // With a threshold that nothing exceeds all are charged.
  EXPECT_THAT(MeanCosines(keys, 2, 1.5f), ElementsAre(DoubleNear(0.5, kTiny), DoubleNear(0.5, kTiny),
                                                      DoubleNear(0.5, kTiny), DoubleNear(0, kTiny)));
}

TEST(MeanCosines, KeysWithoutDirectionResembleNothing) {
  EXPECT_THAT(MeanCosines(std::vector<float>(20 * 4, 0.0f), 4, 0.5f), Each(0.0));
}

// One head of 2 dimensions: 6 slots, then a window of 8.
class RKvPolicy : public testing::Test {
 protected:
  static constexpr int64_t kSlots = 14, kPrefix = 6, kDims = 2, kGroup = 2, kWindow = 8;

  HeadView View() const {
    return {.layer = 0,
            .global_head = 0,
            .positions = positions_,
            .mass = {},
            .keys = keys_,
            .head_dim = kDims,
            .queries = queries_,
            .group = kGroup,
            .window_begin = kPrefix,
            .recent_begin = kPrefix,
            .tokens_seen = kSlots,
            .prompt_tokens = 5,
            .eviction_index = 0,
            .seed = 1,
            .choice_index = 0};
  }
  std::vector<float> Scores(const HeadView& view) const {
    std::vector<float> scores(view.positions.size());
    policy_->Score(view, scores);
    return scores;
  }
  static std::vector<int32_t> Ascending() {
    std::vector<int32_t> positions(kSlots);
    std::iota(positions.begin(), positions.end(), 0);
    return positions;
  }

  const std::unique_ptr<EvictionPolicy> policy_ = MakePolicy("r-kv").value();
  const std::vector<int32_t> positions_ = Ascending();
  std::vector<float> keys_ = Random(3, kSlots*kDims), queries_ = Random(4, kWindow*kGroup*kDims);
};

TEST_F(RKvPolicy, AsksForTheQueriesOfItsWindowAndKeepsIt) {
  EXPECT_EQ(policy_->observations(), (Observations{.window_tokens = 8, .keys = true, .queries = true}));
  EXPECT_EQ(policy_->RecentTokens(100, 0), 8);
  EXPECT_EQ(policy_->RecentTokens(100, 32), 32);
  EXPECT_FALSE(policy_->SupportsScope(EvictionScope::kLayer));
  EXPECT_EQ(policy_->timing(), EvictionTiming::kChunked);
}

TEST_F(RKvPolicy, ScoresAreImportanceLessRedundancyOfAPlainLoop) {
  queries_[5] = 6;  // not all alike
  std::vector<double> importance(kPrefix, 0.0);
  for (int64_t token = 0; token < kWindow; ++token) {
    std::vector<double> weights;
    for (int64_t slot = 0; slot < kPrefix; ++slot) {
      double largest = -1e9;
      for (int64_t g = 0; g < kGroup; ++g) {
        double logit = 0;
        for (int64_t i = 0; i < kDims; ++i) {
          logit += double(queries_[size_t((token * kGroup + g) * kDims + i)]) * double(keys_[size_t(slot * kDims + i)]);
        }
        largest = std::max(largest, logit);
      }
      weights.push_back(std::exp(largest));
    }
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (size_t slot = 0; slot < kPrefix; ++slot) importance[slot] += weights[slot] / sum / kWindow;
  }
  std::vector<double> redundancy = MeanCosinesByHand(keys_, kDims, 0.5);
  double sum = 0;
  for (double& value : redundancy) sum += value = std::exp(value);
  const std::vector<float> scores = Scores(View());
  for (int64_t slot = 0; slot < kPrefix; ++slot) {
    const double pooled = *std::max_element(importance.begin() + std::max<int64_t>(0, slot - 3),
                                            importance.begin() + std::min<int64_t>(kPrefix, slot + 4));
    EXPECT_NEAR(scores[size_t(slot)], 0.1 * pooled - 0.9 * redundancy[size_t(slot)] / sum, kTiny) << slot;
  }
  for (size_t slot = kPrefix; slot < kSlots; ++slot) EXPECT_EQ(scores[slot], 0.0f) << "the window is not scored";
}

// Queries without direction attend alike to all; slots 0 to 2 say the same, the others nothing.
TEST_F(RKvPolicy, OfSlotsThatSayTheSameTheNewestRanksHighest) {
  std::fill(keys_.begin(), keys_.end(), 0.0f);
  std::fill(queries_.begin(), queries_.end(), 0.0f);
  for (size_t slot : {0u, 1u, 2u}) keys_[slot * kDims] = float(slot + 1);
  const std::vector<float> scores = Scores(View());
  EXPECT_LT(scores[0], scores[1]);
  EXPECT_LT(scores[1], scores[2]);
  EXPECT_EQ(scores[2], scores[3]);  // not charged for the older ones
}

TEST_F(RKvPolicy, TheQueryHeadThatAttendsMostCounts) {
  std::fill(keys_.begin(), keys_.end(), 0.0f);
  keys_[1] = 1;  // slot 0, across to all
  std::fill(queries_.begin(), queries_.end(), 0.0f);
  const float alike = Scores(View())[0];
  for (size_t g : {0u, 1u}) {
    std::fill(queries_.begin(), queries_.end(), 0.0f);
    for (size_t token = 0; token < kWindow; ++token) queries_[(token * kGroup + g) * kDims + 1] = 4;
    EXPECT_GT(Scores(View())[0], alike) << "query head " << g;
    // Far beyond the pool's reach nothing is left: 3 slots to each side share the attention of slot 0.
    EXPECT_GT(Scores(View())[3], Scores(View())[4]);
  }
}

TEST_F(RKvPolicy, NumbersThatAreNotFiniteGiveFiniteScores) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::vector<float>* values : {&keys_, &queries_}) {
      const float before = std::exchange((*values)[0], bad);
      for (float score : Scores(View())) EXPECT_TRUE(std::isfinite(score));
      (*values)[0] = before;
    }
  }
}

TEST_F(RKvPolicy, NothingBeforeTheWindowMeansNothingToScore) {
  HeadView view = View();
  view.window_begin = 0;
  EXPECT_THAT(Scores(view), Each(0.0f));
}

TEST_F(RKvPolicy, FewerQueriesThanTheWindowHasAreEnough) {
  HeadView view = View();
  view.queries = view.queries.first(kGroup * kDims);
  for (float score : Scores(view)) EXPECT_TRUE(std::isfinite(score));
}

using RKvPolicyDeathTest = RKvPolicy;

TEST_F(RKvPolicyDeathTest, WithoutQueriesItEndsTheProgram) {
  HeadView view = View();
  view.queries = {};
  EXPECT_DEATH(Scores(view), "check failed");
}

}  // namespace
}  // namespace winnow
