#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/policies/head_view.h"

namespace winnow {
namespace {

TEST(RandomPolicy, DrawsAnewForEveryHeadLayerEvictionChoiceAndSeed) {
  const auto policy = MakePolicy("random").value();
  const std::vector<int32_t> positions = Positions(300);
  std::set<std::vector<int32_t>> sets;
  const auto draw = [&](auto change) {
    HeadView view = ViewOf(positions);
    change(view);
    sets.insert(Kept(*policy, view, 100));
  };
  draw([](HeadView&) {});
  for (int64_t i = 1; i <= 8; ++i) {
    draw([i](HeadView& view) { view.layer = i; });
    draw([i](HeadView& view) { view.global_head = i; });
    draw([i](HeadView& view) { view.eviction_index = i; });
    draw([i](HeadView& view) { view.choice_index = i; });
    draw([i](HeadView& view) { view.seed = uint64_t(1 + i); });
    draw([i](HeadView& view) { view.seed = 1 + (uint64_t(i) << 32); });
  }
  EXPECT_EQ(sets.size(), 1u + 6 * 8);
}

TEST(RandomPolicy, DependsOnTheKeysAndPositionAlone) {
  const auto policy = MakePolicy("random").value();
  const std::vector<int32_t> all = Positions(100);
  std::vector<int32_t> some = {0, 3, 50, 51, 99};
  HeadView view = ViewOf(some);
  view.tokens_seen = 12345;  // neither these nor the other slots have a say
  view.prompt_tokens = 77;
  const std::vector<float> of_all = Scores(*policy, ViewOf(all)), of_some = Scores(*policy, view);
  for (size_t slot = 0; slot < some.size(); ++slot) EXPECT_EQ(of_some[slot], of_all[size_t(some[slot])]);
}

TEST(RandomPolicy, ScoresAreInsideTheUnitIntervalAndUniform) {
  const auto policy = MakePolicy("random").value();
  constexpr int64_t kCells = 64;
  constexpr double kCount = 64'000, kExpected = kCount / kCells;
  const std::vector<int32_t> positions = Positions(int64_t(kCount));
  std::vector<double> counts(kCells);
  for (float score : Scores(*policy, ViewOf(positions))) {
    ASSERT_GT(score, 0.0f);
    ASSERT_LT(score, 1.0f);
    counts[size_t(score * kCells)] += 1;
  }
  double chi_square = 0;
  for (double count : counts) chi_square += (count - kExpected) * (count - kExpected) / kExpected;
  EXPECT_LT(chi_square, 120);  // 63 degrees of freedom: above 120 once in 50,000 seeds
}

TEST(RandomPolicy, KeepsEveryAgeAlikeOverManyHeads) {
  const auto policy = MakePolicy("random").value();
  constexpr int64_t kLength = 200, kBudget = 50, kDraws = 2000;
  constexpr double kExpected = double(kDraws) * kBudget / kLength;
  const std::vector<int32_t> positions = Positions(kLength);
  std::vector<double> counts(kLength);
  for (int64_t draw = 0; draw < kDraws; ++draw) {
    HeadView view = ViewOf(positions);
    view.layer = draw / 50;
    view.global_head = draw % 50;
    for (int32_t slot : Kept(*policy, view, kBudget, {})) counts[size_t(slot)] += 1;
  }
  double chi_square = 0;
  for (double count : counts) chi_square += (count - kExpected) * (count - kExpected) / (kExpected * 0.75);
  EXPECT_LT(chi_square, 290);  // 199 degrees of freedom: above 290 once in 30,000 seeds
}

TEST(RandomPolicy, WiderScopesDrawOnceForAllTheirHeads) {
  const auto policy = MakePolicy("random").value();
  const std::vector<int32_t> positions = Positions(100);
  HeadView layer = ViewOf(positions), other_layer = layer, all = layer;
  layer.global_head = other_layer.global_head = HeadView::kAllOfThem;
  other_layer.layer = 1;
  all.layer = all.global_head = HeadView::kAllOfThem;
  EXPECT_NE(Scores(*policy, layer), Scores(*policy, other_layer));
  EXPECT_NE(Scores(*policy, layer), Scores(*policy, all));
}

}  // namespace
}  // namespace winnow
