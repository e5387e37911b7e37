#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/hash.h"
#include "compute/kv_layout.h"

namespace winnow {
namespace {

using testing::HasSubstr;

Request Ask(int64_t id, int64_t prompt_tokens, int64_t max_tokens, int64_t budget = 0, int64_t interval = 0) {
  Request request;
  request.id = id;
  request.prompt.assign(size_t(prompt_tokens), 7);
  request.max_tokens = max_tokens;
  if (budget > 0) {
    request.eviction = {
        .policy = "random", .budget = budget, .interval = interval, .sink_tokens = 2, .recent_tokens = 4};
  }
  return request;
}

// Plays the engine: does what the plans say and checks each of them against its own books.
class Engine {
 public:
  explicit Engine(const SchedulerLimits& limits) : limits_(limits), scheduler_(limits) {}

  void Submit(const Request& request) {
    ASSERT_TRUE(scheduler_.Submit(request).ok());
    ++num_submitted_;
  }

  // False when the plan says stop.
  bool Step() {
    const StepPlan plan = scheduler_.Next();
    EXPECT_EQ(plan.step, num_steps_++);
    for (int64_t id : plan.finished) {
      EXPECT_TRUE(texts_.at(id).over);
      texts_.erase(id);
      ++num_finished_;
    }
    for (const Request& request : plan.admitted) {
      EXPECT_EQ(request.id, num_admitted_++) << "first come, first served";
      texts_[request.id] = {.request = request, .known = int64_t(request.prompt.size())};
    }
    CheckItems(plan);
    return !plan.stop;
  }

  int64_t num_finished() const { return num_finished_; }
  int64_t num_submitted() const { return num_submitted_; }
  int64_t num_steps() const { return num_steps_; }
  int64_t num_evictions() const { return num_evictions_; }
  int64_t most_rows() const { return most_rows_; }
  size_t most_running() const { return most_running_; }

 private:
  struct Text {
    Request request;
    int64_t known = 0, computed = 0, sampled = 0;
    int64_t slots = 0;  // as the cache would hold them
    bool over = false;
  };

  void CheckItems(const StepPlan& plan) {
    EXPECT_EQ(plan.stop, plan.items.empty());
    EXPECT_LE(int64_t(texts_.size()), limits_.max_num_seqs);
    most_running_ = std::max(most_running_, texts_.size());
    int64_t rows = 0;
    bool prefill_seen = false;
    std::map<int64_t, int64_t> items_of;
    for (const StepItem& item : plan.items) {
      EXPECT_EQ(++items_of[item.request_id], 1) << "one item per sequence";
      Text& text = texts_.at(item.request_id);
      EXPECT_FALSE(text.over);
      const bool decode = text.known - text.computed == 1;
      EXPECT_FALSE(decode && prefill_seen) << "decode rows come first";
      prefill_seen |= !decode;
      EXPECT_GT(item.num_tokens, 0);
      rows += item.num_tokens;
      text.computed += item.num_tokens;
      text.slots += item.num_tokens;
      EXPECT_LE(text.computed, text.known);
      EXPECT_EQ(item.sample, text.computed == text.known);
      const EvictionSettings& eviction = text.request.eviction;
      const int64_t trigger = eviction.budget + eviction.interval;
      if (eviction.evicts()) {
        EXPECT_LE(text.slots, trigger) << "a chunk crosses an eviction point";
      }
      EXPECT_EQ(item.evict, eviction.evicts() && text.slots == trigger);
      CheckPool();
      if (item.evict) {
        text.slots = eviction.budget;
        ++num_evictions_;
      }
    }
    EXPECT_LE(rows, limits_.max_num_batched_tokens);
    most_rows_ = std::max(most_rows_, rows);
    for (const StepItem& item : plan.items) {
      if (item.sample) Sampled(texts_.at(item.request_id));
    }
  }

  void Sampled(Text& text) {
    ++text.sampled;
    text.over = text.sampled == text.request.max_tokens;
    if (text.over) {
      scheduler_.Finish(text.request.id);
    } else {
      ++text.known;
      scheduler_.TokenSampled(text.request.id);
    }
  }

  void CheckPool() {
    int64_t slots = 0;
    for (const auto& [id, text] : texts_) slots += (text.slots + kPageSlots - 1) / kPageSlots * kPageSlots;
    EXPECT_LE(slots, limits_.pool_slots);
  }

  const SchedulerLimits limits_;
  Scheduler scheduler_;
  std::map<int64_t, Text> texts_;
  int64_t num_submitted_ = 0, num_admitted_ = 0, num_finished_ = 0, num_steps_ = 0, num_evictions_ = 0;
  int64_t most_rows_ = 0;
  size_t most_running_ = 0;
};

TEST(Scheduler, KeepsItsPromisesOverManyMixes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    auto draw = [&, i = uint64_t(0)](uint64_t bound) mutable { return int64_t(HashWords({seed, ++i}) % bound); };
    Engine engine({.max_num_seqs = 1 + draw(6), .max_num_batched_tokens = 1 + draw(100), .pool_slots = 320});
    const int64_t count = 1 + draw(10);
    for (int64_t id = 0; id < count; ++id) {
      const bool evicts = draw(3) > 0;
      // A sequence that evicts may be longer than the pool.
      engine.Submit(evicts ? Ask(id, 1 + draw(500), 1 + draw(60), 8 + draw(60), 1 + draw(40))
                           : Ask(id, 1 + draw(200), 1 + draw(60)));
    }
    while (engine.Step()) ASSERT_LT(engine.num_steps(), 20000) << "seed " << seed;
    EXPECT_EQ(engine.num_finished(), count) << "seed " << seed;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(Scheduler, AnEvictionPointInThePromptEndsTheChunk) {
  Scheduler scheduler({.max_num_seqs = 1, .max_num_batched_tokens = 512, .pool_slots = 1024});
  ASSERT_TRUE(scheduler.Submit(Ask(0, 100, 5, 40, 10)).ok());
  std::vector<int64_t> chunks;
  std::vector<bool> evicts;
  for (int step = 0; step < 6; ++step) {
    const StepPlan plan = scheduler.Next();
    ASSERT_EQ(plan.items.size(), 1u);
    chunks.push_back(plan.items[0].num_tokens);
    evicts.push_back(plan.items[0].evict);
    EXPECT_EQ(plan.items[0].sample, step == 5);
  }
  EXPECT_EQ(chunks, (std::vector<int64_t>{50, 10, 10, 10, 10, 10}));
  EXPECT_EQ(evicts, std::vector<bool>(6, true));
}

TEST(Scheduler, RunningTextsGoOnWhileALongPromptIsRead) {
  Engine engine({.max_num_seqs = 2, .max_num_batched_tokens = 16, .pool_slots = 4096});
  engine.Submit(Ask(0, 4, 30));
  engine.Submit(Ask(1, 300, 2));
  int64_t steps = 0;
  while (engine.Step()) ++steps;
  // 4 + 12 tokens, then 15 of the prompt beside one decode row: (300 - 12) / 15 = 19.2 steps, so that the first text
  // is nearly done when the prompt is.
  EXPECT_LE(steps, 32);
  EXPECT_EQ(engine.most_rows(), 16);
}

// The longest wait of a text for its next rows, in steps, over 100 steps in which no text ends.
int64_t LongestWait(Scheduler& scheduler, int64_t num_texts) {
  std::vector<int64_t> last_step(size_t(num_texts), -1);
  int64_t longest = 0;
  for (int64_t step = 0; step < 100; ++step) {
    for (const StepItem& item : scheduler.Next().items) {
      last_step[size_t(item.request_id)] = step;
      if (item.sample) scheduler.TokenSampled(item.request_id);
    }
    for (int64_t last : last_step) longest = std::max(longest, step - last);
  }
  return longest;
}

TEST(Scheduler, TextsTakeTurnsWhenThereAreFewerRowsThanTexts) {
  struct Case {
    int64_t rows, texts, steps_waited;
  };
  for (const auto& [rows, texts, steps_waited] : {Case{3, 3, 0}, Case{2, 3, 1}, Case{1, 3, 2}, Case{3, 7, 2}}) {
    Scheduler scheduler({.max_num_seqs = 8, .max_num_batched_tokens = rows, .pool_slots = 4096});
    for (int64_t id = 0; id < texts; ++id) ASSERT_TRUE(scheduler.Submit(Ask(id, 1, 300)).ok());
    EXPECT_EQ(LongestWait(scheduler, texts), steps_waited) << rows << " rows, " << texts << " texts";
  }
}

TEST(Scheduler, APromptIsReadWhileTextsUseUpTheRows) {
  for (const int64_t rows : {1, 2}) {
    Scheduler scheduler({.max_num_seqs = 8, .max_num_batched_tokens = rows, .pool_slots = 4096});
    ASSERT_TRUE(scheduler.Submit(Ask(0, 1, 300)).ok());
    ASSERT_TRUE(scheduler.Submit(Ask(1, 1, 300)).ok());
    ASSERT_TRUE(scheduler.Submit(Ask(2, 500, 300)).ok());
    // One row: the prompt gets every second, the texts share the others.
    EXPECT_EQ(LongestWait(scheduler, 3), rows == 1 ? 3 : 1);
  }
}

TEST(Scheduler, TextsWaitForSlotsAndAllComeTheirTurn) {
  Engine engine({.max_num_seqs = 8, .max_num_batched_tokens = 512, .pool_slots = 128});
  for (int64_t id = 0; id < 6; ++id) engine.Submit(Ask(id, 30, 10));  // 39 slots: 48 reserved, two at a time
  while (engine.Step()) continue;
  EXPECT_EQ(engine.num_finished(), 6);
  EXPECT_EQ(engine.most_running(), 2u);
}

TEST(Scheduler, ALargeRequestIsNotOvertakenBySmallOnes) {
  Engine engine({.max_num_seqs = 8, .max_num_batched_tokens = 512, .pool_slots = 128});
  engine.Submit(Ask(0, 30, 10));
  engine.Submit(Ask(1, 100, 20));  // needs the whole pool; the engine checks the order of admission
  engine.Submit(Ask(2, 2, 2));
  while (engine.Step()) continue;
  EXPECT_EQ(engine.num_finished(), 3);
  EXPECT_EQ(engine.most_running(), 1u);
}

TEST(Scheduler, ARequestThatCanNeverRunIsRefusedWithTheNumbers) {
  Scheduler scheduler({.max_num_seqs = 8, .max_num_batched_tokens = 512, .pool_slots = 128});
  const Status status = scheduler.Submit(Ask(3, 100, 30));  // 129 slots
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("request 3"));
  EXPECT_THAT(status.message(), HasSubstr("144"));
  EXPECT_THAT(status.message(), HasSubstr("128"));
  EXPECT_TRUE(scheduler.Submit(Ask(4, 100, 29)).ok());
  EXPECT_TRUE(scheduler.Submit(Ask(5, 1000, 1000, 100, 28)).ok());
}

TEST(Scheduler, WithoutRequestsTheFirstPlanSaysStop) {
  const StepPlan plan = Scheduler({}).Next();
  EXPECT_TRUE(plan.stop);
  EXPECT_TRUE(plan.items.empty());
}

TEST(Scheduler, TheLastTextIsReportedFinishedByThePlanThatStops) {
  Scheduler scheduler({.max_num_seqs = 1, .max_num_batched_tokens = 8, .pool_slots = 64});
  ASSERT_TRUE(scheduler.Submit(Ask(0, 3, 1)).ok());
  EXPECT_FALSE(scheduler.Next().stop);
  scheduler.Finish(0);
  const StepPlan last = scheduler.Next();
  EXPECT_TRUE(last.stop);
  EXPECT_EQ(last.finished, std::vector<int64_t>{0});
}

TEST(PagesToReserve, CountsWholePagesAndNotTheLastToken) {
  EXPECT_EQ(PagesToReserve(Ask(0, 16, 1), {}), std::vector<int64_t>{1});
  EXPECT_EQ(PagesToReserve(Ask(0, 16, 2), {}), std::vector<int64_t>{2});
  EXPECT_EQ(PagesToReserve(Ask(0, 1000, 100, 40, 10), {}), std::vector<int64_t>{4});
}

TEST(SchedulerDeathTest, RefusesEmptyPromptsAndFinishingWhatDoesNotRun) {
  Scheduler scheduler({});
  EXPECT_DEATH((void)scheduler.Submit(Ask(0, 0, 1)), "");
  EXPECT_DEATH((void)scheduler.Submit(Ask(0, 1, 0)), "");
  EXPECT_DEATH(scheduler.Finish(0), "");
}

}  // namespace
}  // namespace winnow
