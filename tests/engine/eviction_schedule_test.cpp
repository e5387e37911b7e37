#include "engine/eviction_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/hash.h"

namespace winnow {
namespace {

Request Ask(int64_t prompt_tokens, int64_t budget, int64_t interval, EvictionTiming timing = EvictionTiming::kChunked) {
  Request request;
  request.prompt.assign(size_t(prompt_tokens), 1);
  request.eviction = {.policy = "streaming-llm", .budget = budget, .interval = interval, .timing = timing};
  return request;
}

void Pin(Request& request, int64_t after_tokens, int64_t num_slots) {
  request.pinned.push_back({.after_tokens = after_tokens, .num_slots = num_slots, .keys = {}, .values = {}});
}

// One token at a time, in the words of the contract: pinned slots follow their token, then a head that has reached the
// trigger (or the end of the prompt, above the budget) falls to the budget.
struct Simulation {
  std::vector<int64_t> cuts;  // tokens in the cache when pinned slots or an eviction came
  std::vector<int64_t> evictions;
  int64_t most = 0, slots = 0;

  Simulation(const Request& request, int64_t num_tokens) {
    const EvictionSettings& settings = request.eviction;
    for (int64_t tokens = 1; tokens <= num_tokens; ++tokens) {
      ++slots;
      bool is_cut = false;
      for (const PinnedBlock& block : request.pinned) {
        if (block.after_tokens != tokens) continue;
        slots += block.num_slots;
        is_cut = true;
      }
      most = std::max(most, slots);
      const bool is_due = settings.timing == EvictionTiming::kChunked
                              ? slots >= settings.budget + settings.interval
                              : tokens == request.prompt_tokens() && slots > settings.budget;
      if (settings.evicts() && is_due) {
        slots = settings.budget;
        evictions.push_back(tokens);
        is_cut = true;
      }
      if (is_cut) cuts.push_back(tokens);
    }
  }
};

// The schedule, in steps of at most `chunk` tokens; checks what it says of itself on the way.
Simulation Walk(const Request& request, int64_t num_tokens, int64_t chunk) {
  EvictionSchedule schedule(request);
  Simulation seen(request, 0);
  while (schedule.tokens() < num_tokens) {
    const int64_t next_eviction = schedule.NextEviction();
    const int64_t count = std::min({chunk, schedule.TokensUntilCut(), num_tokens - schedule.tokens()});
    EXPECT_GT(count, 0);
    const int64_t before = schedule.slots();
    const EvictionSchedule::Due due = schedule.Advance(count);
    EXPECT_EQ(due.evict, schedule.tokens() == next_eviction);
    const int64_t pinned = due.pinned_block < 0 ? 0 : request.pinned[size_t(due.pinned_block)].num_slots;
    seen.most = std::max(seen.most, before + count + pinned);
    if (due.evict) seen.evictions.push_back(schedule.tokens());
    if (due.evict || due.pinned_block >= 0) seen.cuts.push_back(schedule.tokens());
  }
  seen.slots = schedule.slots();
  return seen;
}

void ExpectSame(const Simulation& got, const Simulation& want) {
  EXPECT_EQ(got.cuts, want.cuts);
  EXPECT_EQ(got.evictions, want.evictions);
  EXPECT_EQ(got.slots, want.slots);
  EXPECT_EQ(got.most, want.most);
}

TEST(EvictionSchedule, ChunkedEvictsWheneverAHeadHoldsBudgetAndInterval) {
  EvictionSchedule schedule(Ask(100, 20, 8));
  for (int64_t tokens : {28, 36, 44, 52}) {
    EXPECT_EQ(schedule.NextEviction(), tokens);
    EXPECT_EQ(schedule.TokensUntilCut(), tokens - schedule.tokens());
    EXPECT_TRUE(schedule.Advance(schedule.TokensUntilCut()).evict);
    EXPECT_EQ(schedule.slots(), 20);
  }
  EXPECT_FALSE(schedule.Advance(7).evict);
  EXPECT_EQ(schedule.TokensUntilCut(), 1);
}

TEST(EvictionSchedule, AfterPrefillEvictsOnceAtTheEndOfThePromptAndNeverAgain) {
  EvictionSchedule schedule(Ask(100, 20, 8, EvictionTiming::kAfterPrefill));
  EXPECT_EQ(schedule.NextEviction(), 100);
  EXPECT_FALSE(schedule.Advance(60).evict);
  EXPECT_EQ(schedule.TokensUntilCut(), 40);
  EXPECT_TRUE(schedule.Advance(40).evict);
  EXPECT_EQ(schedule.slots(), 20);
  EXPECT_EQ(schedule.NextEviction(), EvictionSchedule::kNever);
  EXPECT_EQ(schedule.TokensUntilCut(), EvictionSchedule::kNever);
  schedule.Advance(1000);
  EXPECT_EQ(schedule.slots(), 1020);
}

TEST(EvictionSchedule, AfterPrefillLeavesAPromptWithinTheBudgetAlone) {
  const EvictionSchedule schedule(Ask(20, 20, 8, EvictionTiming::kAfterPrefill));
  EXPECT_EQ(schedule.NextEviction(), EvictionSchedule::kNever);
  EXPECT_EQ(schedule.MaxSlots(100), 100);
  EXPECT_EQ(EvictionSchedule(Ask(21, 20, 8, EvictionTiming::kAfterPrefill)).NextEviction(), 21);
}

TEST(EvictionSchedule, AReplayedAnswerIsNoPartOfThePrompt) {
  Request request = Ask(130, 20, 8, EvictionTiming::kAfterPrefill);
  request.original_prompt_tokens = 100;
  EXPECT_EQ(EvictionSchedule(request).NextEviction(), 100);
}

TEST(EvictionSchedule, PinnedSlotsComeAfterTheirTokenAndBringTheEvictionForward) {
  Request request = Ask(100, 20, 8);
  Pin(request, 10, 8);
  EvictionSchedule schedule(request);
  EXPECT_EQ(schedule.NextEviction(), 20);  // 20 tokens and 8 slots
  EXPECT_EQ(schedule.TokensUntilCut(), 10);
  const EvictionSchedule::Due due = schedule.Advance(10);
  EXPECT_EQ(due.pinned_block, 0);
  EXPECT_FALSE(due.evict);
  EXPECT_EQ(schedule.slots(), 18);
  EXPECT_EQ(schedule.tokens(), 10);
  EXPECT_EQ(schedule.TokensUntilCut(), 10);
}

TEST(EvictionSchedule, ABlockThatPushesOverTheTriggerIsFollowedByAnEvictionAtOnce) {
  // 18 tokens and 30 slots: more than the interval alone. And one that is due exactly where an eviction is.
  for (int64_t after : {18, 28}) {
    Request request = Ask(100, 20, 8);
    Pin(request, after, 30);
    EvictionSchedule schedule(request);
    EXPECT_EQ(schedule.NextEviction(), after);
    const EvictionSchedule::Due due = schedule.Advance(after);
    EXPECT_EQ(due.pinned_block, 0);
    EXPECT_TRUE(due.evict);
    EXPECT_EQ(schedule.slots(), 20);
    EXPECT_EQ(schedule.NextEviction(), after + 8);
    EXPECT_EQ(EvictionSchedule(request).MaxSlots(100), after + 30);
  }
}

TEST(EvictionSchedule, AfterPrefillCountsPinnedSlotsOfThePrompt) {
  Request request = Ask(18, 20, 8, EvictionTiming::kAfterPrefill);
  EXPECT_EQ(EvictionSchedule(request).NextEviction(), EvictionSchedule::kNever);
  Pin(request, 18, 3);
  EXPECT_EQ(EvictionSchedule(request).NextEviction(), 18);
  EXPECT_TRUE(EvictionSchedule(request).Advance(18).evict);
  request.pinned[0].after_tokens = 19;  // behind the prompt: adds to it, as text does
  EXPECT_EQ(EvictionSchedule(request).NextEviction(), EvictionSchedule::kNever);
  EXPECT_EQ(EvictionSchedule(request).MaxSlots(30), 33);
}

TEST(EvictionSchedule, MaxSlotsIsTheTriggerOrTheText) {
  const EvictionSchedule schedule(Ask(10, 64, 16));
  EXPECT_EQ(schedule.MaxSlots(79), 79);
  EXPECT_EQ(schedule.MaxSlots(80), 80);
  EXPECT_EQ(schedule.MaxSlots(81), 80);
  EXPECT_EQ(schedule.MaxSlots(100000), 80);
  EXPECT_EQ(EvictionSchedule(Request()).MaxSlots(100000), 100000);
  EXPECT_EQ(EvictionSchedule(Ask(70, 64, 16, EvictionTiming::kAfterPrefill)).MaxSlots(90), 84);
}

TEST(EvictionSchedule, AgreesWithASimulationOnRandomRequestsInAnyChunks) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    auto draw = [&, i = uint64_t(0)](uint64_t bound) mutable { return int64_t(HashWords({seed, ++i}) % bound); };
    const int64_t prompt = 1 + draw(120), budget = draw(5) == 0 ? 0 : 1 + draw(60);
    Request request =
        Ask(prompt, budget, 1 + draw(30), draw(2) == 0 ? EvictionTiming::kChunked : EvictionTiming::kAfterPrefill);
    if (draw(3) == 0) request.original_prompt_tokens = 1 + draw(uint64_t(prompt));
    int64_t after = 0;
    for (int64_t blocks = draw(4); blocks > 0; --blocks) Pin(request, after += 1 + draw(40), 1 + draw(50));
    const int64_t num_tokens = 1 + draw(200);
    const Simulation want(request, num_tokens);
    EXPECT_EQ(EvictionSchedule(request).MaxSlots(num_tokens), want.most) << seed;
    for (int64_t chunk : {1, 7, 64, 1000}) ExpectSame(Walk(request, num_tokens, chunk), want);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(EvictionScheduleDeathTest, StepsOverACutAndUnsortedBlocksEndTheProgram) {
  EvictionSchedule schedule(Ask(100, 20, 8));
  EXPECT_DEATH(schedule.Advance(29), "check failed");
  EXPECT_DEATH(schedule.Advance(0), "check failed");
  Request request = Ask(100, 20, 8);
  Pin(request, 5, 1);
  Pin(request, 5, 1);
  EXPECT_DEATH(EvictionSchedule{request}, "check failed");
  request.pinned = {};
  Pin(request, 0, 1);
  EXPECT_DEATH(EvictionSchedule{request}, "check failed");
}

}  // namespace
}  // namespace winnow
