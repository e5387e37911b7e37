#include "kv/keep_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/hash.h"

namespace winnow {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int32_t> Positions(int64_t length) {
  std::vector<int32_t> positions(static_cast<size_t>(length));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

std::vector<int32_t> Select(const std::vector<float>& scores, int64_t budget, const Protection& protection) {
  return SelectKept(Positions(int64_t(scores.size())), scores, budget, protection);
}

TEST(SelectKept, KeepsTheHighestScoresInAscendingSlotOrder) {
  EXPECT_THAT(Select({0.5f, 0.1f, 0.9f, 0.3f, 0.7f}, 3, {}), ElementsAre(0, 2, 4));
}

TEST(SelectKept, PrefersTheHigherPositionOnTies) {
  EXPECT_THAT(Select({1, 2, 1, 1, 2, 1}, 4, {}), ElementsAre(1, 3, 4, 5));
  EXPECT_THAT(Select(std::vector<float>(7, 0.25f), 3, {}), ElementsAre(4, 5, 6));
}

TEST(SelectKept, TakesBothZerosForEqual) {
  EXPECT_THAT(Select({0.0f, -0.0f, 0.0f, -0.0f}, 2, {}), ElementsAre(2, 3));
}

TEST(SelectKept, OrdersNegativeAndInfiniteScores) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Select({-1, -3, -infinity, -2, infinity}, 3, {}), ElementsAre(0, 3, 4));
}

TEST(SelectKept, KeepsSinksAndRecentWhateverTheirScores) {
  const std::vector<float> scores = {-9, -9, 5, 6, 7, 8, -9, -9};
  EXPECT_THAT(Select(scores, 5, {.sink_tokens = 2, .recent_tokens = 2}), ElementsAre(0, 1, 5, 6, 7));
}

TEST(SelectKept, TakesOnlyThePromisedPositionsForSinks) {
  // Slots 0 and 1 are at positions 0 and 5: only the first is a sink, however early the second stands.
  const std::vector<int32_t> positions = {0, 5, 6, 7};
  const std::vector<float> scores = {0, 0, 2, 1};
  EXPECT_THAT(SelectKept(positions, scores, 2, {.sink_tokens = 4, .recent_tokens = 0}), ElementsAre(0, 2));
}

TEST(SelectKept, CountsASlotThatIsSinkAndRecentOnce) {
  EXPECT_THAT(Select({1, 2, 3, 4}, 3, {.sink_tokens = 3, .recent_tokens = 0}), ElementsAre(0, 1, 2));
  const std::vector<int32_t> positions = {0, 1, 2, 3};
  const std::vector<float> scores = {9, 9, 0, 0};
  EXPECT_THAT(SelectKept(positions, scores, 3, {.sink_tokens = 0, .recent_tokens = 2}), ElementsAre(1, 2, 3));
}

TEST(SelectKept, KeepsExactlyTheProtectedSlotsIfTheyAreTheBudget) {
  EXPECT_THAT(Select({0, 0, 9, 9, 9, 0}, 3, {.sink_tokens = 2, .recent_tokens = 1}), ElementsAre(0, 1, 5));
}

TEST(SelectKept, IgnoresNaNOnProtectedSlots) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Select({nan, 1, 2, nan}, 3, {.sink_tokens = 1, .recent_tokens = 1}), ElementsAre(0, 2, 3));
}

TEST(SelectKept, LeavesShortContextsAlone) {
  EXPECT_THAT(Select({1, 2, 3}, 3, {.sink_tokens = 4, .recent_tokens = 32}), ElementsAre(0, 1, 2));
  EXPECT_THAT(Select({1, 2, 3}, 100, {}), ElementsAre(0, 1, 2));
  EXPECT_THAT(Select({}, 0, {}), IsEmpty());
}

TEST(SelectKept, MeetsTheBudgetExactlyAndAgreesWithAFullSort) {
  for (uint64_t round = 0; round < 200; ++round) {
    const int64_t length = 1 + int64_t(HashWords({1, round}) % 300);
    const Protection protection{.sink_tokens = int64_t(HashWords({2, round}) % 5),
                                .recent_tokens = int64_t(HashWords({3, round}) % 33)};
    const int64_t budget = protection.sink_tokens + protection.recent_tokens + int64_t(HashWords({4, round}) % 200);
    std::vector<int32_t> positions(static_cast<size_t>(length));
    std::vector<float> scores(positions.size());
    int32_t position = 0;
    for (size_t slot = 0; slot < positions.size(); ++slot) {
      positions[slot] = position;
      position += 1 + int32_t(HashWords({5, round, slot}) % 3);
      scores[slot] = float(HashWords({6, round, slot}) % 20);  // many ties
    }
    std::vector<int32_t> order(positions.size());
    std::iota(order.begin(), order.end(), 0);
    const auto rank = [&](int32_t slot) {
      const bool is_protected =
          positions[size_t(slot)] < protection.sink_tokens || slot >= length - protection.recent_tokens;
      return std::tuple(is_protected ? 0 : 1, is_protected ? 0.0f : -scores[size_t(slot)], -slot);
    };
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return rank(a) < rank(b); });
    order.resize(size_t(std::min(budget, length)));
    std::sort(order.begin(), order.end());
    ASSERT_EQ(SelectKept(positions, scores, budget, protection), order) << round;
  }
}

// Positions 0..9, of which some are no text; 2 sinks and 3 recent tokens of the text.
std::vector<uint8_t> ProtectedOf10(const std::vector<int32_t>& pinned) {
  return ProtectedSlots(Positions(10), {.sink_tokens = 2, .recent_tokens = 3, .pinned_positions = pinned});
}

TEST(ProtectedSlots, PinnedSlotsAreProtectedWhereverTheyAre) {
  EXPECT_THAT(ProtectedOf10({}), ElementsAre(1, 1, 0, 0, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(ProtectedOf10({4, 5}), ElementsAre(1, 1, 0, 0, 1, 1, 0, 1, 1, 1));
}

TEST(ProtectedSlots, PinnedSlotsInOrBehindTheRecentTokensAreNotCountedAmongThem) {
  EXPECT_THAT(ProtectedOf10({8}), ElementsAre(1, 1, 0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(ProtectedOf10({8, 9}), ElementsAre(1, 1, 0, 0, 0, 1, 1, 1, 1, 1));
  EXPECT_THAT(ProtectedOf10({6}), ElementsAre(1, 1, 0, 0, 0, 0, 1, 1, 1, 1));
}

TEST(ProtectedSlots, TheFirstTokensOfTheTextAreCountedWithoutPinnedSlots) {
  // A block at the very front, and one between the two sinks.
  EXPECT_THAT(ProtectedOf10({0, 1}), ElementsAre(1, 1, 1, 1, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(ProtectedOf10({1, 2, 3}), ElementsAre(1, 1, 1, 1, 1, 0, 0, 1, 1, 1));
}

TEST(ProtectedSlots, TokensThatAreGoneStillCountAmongTheFirst) {
  // Tokens 1 and 2 of the text (positions 1 and 4) were evicted; 2 and 3 are pinned. The slot at position 5 is token 3.
  const std::vector<int32_t> positions = {0, 2, 3, 5, 6, 7}, pinned = {2, 3};
  EXPECT_THAT(ProtectedSlots(positions, {.sink_tokens = 3, .recent_tokens = 1, .pinned_positions = pinned}),
              ElementsAre(1, 1, 1, 0, 0, 1));
  EXPECT_THAT(ProtectedSlots(positions, {.sink_tokens = 4, .recent_tokens = 1, .pinned_positions = pinned}),
              ElementsAre(1, 1, 1, 1, 0, 1));
}

TEST(RecentBegin, CountsTokensOfTheTextFromTheEnd) {
  const auto begin = [](int64_t recent, const std::vector<int32_t>& pinned) {
    return RecentBegin(Positions(10), {.recent_tokens = recent, .pinned_positions = pinned});
  };
  EXPECT_EQ(begin(0, {}), 10);
  EXPECT_EQ(begin(3, {}), 7);
  EXPECT_EQ(begin(10, {}), 0);
  EXPECT_EQ(begin(11, {}), 0);
  EXPECT_EQ(begin(3, {0, 1}), 7);        // before the window
  EXPECT_EQ(begin(3, {8}), 6);           // inside
  EXPECT_EQ(begin(3, {9}), 6);           // behind
  EXPECT_EQ(begin(3, {6, 7, 8, 9}), 3);  // a window of text before a block
  EXPECT_EQ(begin(0, {9}), 10);          // no window: nothing before the pinned slot begins one
  EXPECT_EQ(begin(9, {0, 9}), 0);
}

TEST(SelectKept, PinnedSlotsCountAgainstTheBudgetAndAreNeverCandidates) {
  // The lowest scores, NaN too: they stay. 2 pinned + 1 sink + 1 recent leave 1 of 5 to the best other slot.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scores = {0, 1, nan, -9, 7, 6, 5, 0};
  const std::vector<int32_t> pinned = {2, 3};
  EXPECT_THAT(Select(scores, 5, {.sink_tokens = 1, .recent_tokens = 1, .pinned_positions = pinned}),
              ElementsAre(0, 2, 3, 4, 7));
}

TEST(SelectKeptDeathTest, PinnedSlotsBeyondTheBudgetEndTheProgram) {
  const std::vector<int32_t> pinned = {1, 2, 3};
  EXPECT_DEATH(Select({1, 2, 3, 4, 5}, 2, {.pinned_positions = pinned}), "check failed");
}

TEST(SelectKeptDeathTest, EndsTheProgramOnNaNAndOnABudgetBelowTheProtectedSlots) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_DEATH(Select({1, nan, 3}, 2, {}), "check failed");
  EXPECT_DEATH(Select({1, 2, 3, 4}, 2, {.sink_tokens = 2, .recent_tokens = 1}), "check failed");
}

}  // namespace
}  // namespace winnow
