#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/policies/head_view.h"

namespace winnow {
namespace {

// The paper's formula word for word, in long double and by another route: every key divided by its length, the mean of
// these, and the cosine of each key with the mean.
std::vector<float> KeyDiffByHand(std::span<const float> keys, size_t dims) {
  const size_t count = keys.size() / dims;
  std::vector<std::vector<long double>> units(count, std::vector<long double>(dims));
  std::vector<long double> mean(dims, 0);
  for (size_t slot = 0; slot < count; ++slot) {
    long double squares = 0;
    for (size_t i = 0; i < dims; ++i) squares += (long double)(keys[slot * dims + i]) * keys[slot * dims + i];
    for (size_t i = 0; i < dims; ++i) {
      units[slot][i] = squares > 0 ? keys[slot * dims + i] / std::sqrt(squares) : 0;
      mean[i] += units[slot][i] / (long double)(count);
    }
  }
  long double length = 0;
  for (long double value : mean) length += value * value;
  std::vector<float> scores(count);
  for (size_t slot = 0; slot < count; ++slot) {
    long double cosine = 0;
    for (size_t i = 0; i < dims; ++i) cosine += units[slot][i] * mean[i] / std::sqrt(length);
    scores[slot] = float(-cosine);
  }
  return scores;
}

TEST(KeyDiffPolicy, ScoresAreMinusTheCosineOfKeyAndMeanKey) {
  const auto policy = MakePolicy("keydiff").value();
  EXPECT_EQ(policy->observations(), Observations{.keys = true});
  for (int64_t length : {1, 2, 17, 300}) {
    const std::vector<int32_t> positions = Positions(length);
    const std::vector<float> scores = Scores(*policy, ViewOf(positions));
    const std::vector<float> expected = KeyDiffByHand(KeysOf(size_t(length)), size_t(kHeadDim));
    for (size_t slot = 0; slot < scores.size(); ++slot) EXPECT_NEAR(scores[slot], expected[slot], 1e-6) << length;
  }
}

TEST(KeyDiffPolicy, KeepsTheKeysThatPointElsewhere) {
  const auto policy = MakePolicy("keydiff").value();
  const std::vector<int32_t> positions = Positions(8);
  // Slots 2 and 5 point where no other key does; lengths do not matter.
  std::vector<float> keys(8 * kHeadDim, 0.0f);
  for (size_t slot = 0; slot < 8; ++slot) keys[slot * kHeadDim] = float(slot + 1);
  for (size_t slot : {2u, 5u}) {
    keys[slot * kHeadDim] = 0;
    keys[slot * kHeadDim + slot] = -100;
  }
  HeadView view = ViewOf(positions);
  view.keys = keys;
  EXPECT_THAT(Kept(*policy, view, 2, {}), testing::ElementsAre(2, 5));
}

TEST(KeyDiffPolicy, KeysWithoutDirectionOrThatAreNotFiniteHaveAFiniteScore) {
  const auto policy = MakePolicy("keydiff").value();
  const std::vector<int32_t> positions = Positions(4);
  std::vector<float> keys(4 * kHeadDim, 0.0f);
  HeadView view = ViewOf(positions);
  view.keys = keys;
  EXPECT_THAT(Scores(*policy, view), testing::Each(0.0f));
  keys[0] = 3;
  keys[kHeadDim] = std::numeric_limits<float>::quiet_NaN();
  keys[2 * kHeadDim] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Scores(*policy, view), testing::ElementsAre(-1.0f, 0.0f, 0.0f, 0.0f));
}

TEST(KeyDiffPolicy, HeadsDoNotShareAKeptSet) {
  const auto policy = MakePolicy("keydiff").value();
  EXPECT_TRUE(policy->SupportsScope(EvictionScope::kHead));
  EXPECT_FALSE(policy->SupportsScope(EvictionScope::kLayer));
  EXPECT_FALSE(policy->SupportsScope(EvictionScope::kSequence));
}

}  // namespace
}  // namespace winnow
