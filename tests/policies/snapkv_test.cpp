#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policies/head_view.h"

namespace winnow {
namespace {

TEST(SnapKvPolicy, PoolsFiveNeighboursOfThePrefixAndIgnoresTheWindow) {
  const auto policy = MakePolicy("snapkv").value();
  EXPECT_EQ(policy->observations(), Observations{.mass = ObservedMass::kWindow});
  const std::vector<int32_t> positions = Positions(10);
  const std::vector<int64_t> mass = {10, 0, 0, 4, 0, 0, 20, 0, 1000, 1000};  // the last two are the window
  HeadView view = ViewOf(positions);
  view.mass = mass;
  view.recent_begin = 8;
  EXPECT_THAT(Scores(*policy, view), testing::ElementsAre(10, 14, 14, 4, 24, 24, 20, 20, 0, 0));
}

// snapkv and snapkv-prefill score alike and act at different times; the loop is the paper's average pooling (times 5).
TEST(SnapKvPolicy, BothFormsPoolAsAPlainLoopDoes) {
  EXPECT_EQ(MakePolicy("snapkv").value()->timing(), EvictionTiming::kChunked);
  EXPECT_EQ(MakePolicy("snapkv-prefill").value()->timing(), EvictionTiming::kAfterPrefill);
  for (int64_t length : {33, 34, 40, 300}) {
    const std::vector<int32_t> positions = Positions(length);
    const HeadView view = ViewOf(positions);
    std::vector<float> expected(positions.size(), 0.0f);
    const int64_t prefix = length - kProtection.recent_tokens;
    for (int64_t slot = 0; slot < prefix; ++slot) {
      int64_t sum = 0;
      for (int64_t neighbour = slot - 2; neighbour <= slot + 2; ++neighbour) {
        if (neighbour >= 0 && neighbour < prefix) sum += view.mass[size_t(neighbour)];
      }
      expected[size_t(slot)] = float(sum);
    }
    for (const char* name : {"snapkv", "snapkv-prefill"}) {
      EXPECT_EQ(Scores(*MakePolicy(name).value(), view), expected) << name << " " << length;
    }
  }
}

}  // namespace
}  // namespace winnow
