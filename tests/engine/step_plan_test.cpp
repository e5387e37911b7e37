#include "engine/step_plan.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

Request FullRequest(int64_t id) {
  Request request;
  request.id = id;
  request.prompt = {5, -1, 1 << 30};
  request.original_prompt_tokens = 2;
  request.max_tokens = 77;
  request.stop_token_ids = {2, 3};
  request.sampling = {.temperature = 0.25f, .top_k = 40, .top_p = 0.5f, .min_p = 0.125f, .seed = ~uint64_t(6)};
  request.choice_index = 9;
  request.eviction = {.policy = "random",
                      .budget = 64,
                      .interval = 17,
                      .sink_tokens = 5,
                      .recent_tokens = 33,
                      .protect_prompt = true,
                      .scope = EvictionScope::kSequence,
                      .timing = EvictionTiming::kAfterPrefill,
                      .replay_prompt = {.chunk_tokens = 99, .first = {4, 8}, .next = {1, 0, 6}}};
  request.pinned = {{.after_tokens = 1, .num_slots = 2, .keys = {0.5f, -2}, .values = {3, 1e30f}},
                    {.after_tokens = 3, .num_slots = 1, .keys = {7}, .values = {-0.0f}}};
  return request;
}

void ExpectEqual(const Request& got, const Request& want) {
  EXPECT_EQ(got.id, want.id);
  EXPECT_EQ(got.prompt, want.prompt);
  EXPECT_EQ(got.original_prompt_tokens, want.original_prompt_tokens);
  EXPECT_EQ(got.max_tokens, want.max_tokens);
  EXPECT_EQ(got.stop_token_ids, want.stop_token_ids);
  EXPECT_EQ(got.sampling.temperature, want.sampling.temperature);
  EXPECT_EQ(got.sampling.top_k, want.sampling.top_k);
  EXPECT_EQ(got.sampling.top_p, want.sampling.top_p);
  EXPECT_EQ(got.sampling.min_p, want.sampling.min_p);
  EXPECT_EQ(got.sampling.seed, want.sampling.seed);
  EXPECT_EQ(got.choice_index, want.choice_index);
  EXPECT_EQ(got.eviction.policy, want.eviction.policy);
  EXPECT_EQ(got.eviction.budget, want.eviction.budget);
  EXPECT_EQ(got.eviction.interval, want.eviction.interval);
  EXPECT_EQ(got.eviction.sink_tokens, want.eviction.sink_tokens);
  EXPECT_EQ(got.eviction.recent_tokens, want.eviction.recent_tokens);
  EXPECT_EQ(got.eviction.protect_prompt, want.eviction.protect_prompt);
  EXPECT_EQ(got.eviction.scope, want.eviction.scope);
  EXPECT_EQ(got.eviction.timing, want.eviction.timing);
  EXPECT_EQ(got.eviction.replay_prompt, want.eviction.replay_prompt);
  ASSERT_EQ(got.pinned.size(), want.pinned.size());
  for (size_t i = 0; i < want.pinned.size(); ++i) {
    EXPECT_EQ(got.pinned[i].after_tokens, want.pinned[i].after_tokens);
    EXPECT_EQ(got.pinned[i].num_slots, want.pinned[i].num_slots);
    EXPECT_EQ(got.pinned[i].keys, want.pinned[i].keys);
    EXPECT_EQ(got.pinned[i].values, want.pinned[i].values);
  }
}

TEST(StepPlan, EveryFieldComesBack) {
  const StepPlan plan{.step = int64_t(1) << 40,
                      .finished = {3, 1},
                      .admitted = {FullRequest(4), FullRequest(5)},
                      .items = {{.request_id = 4, .num_tokens = 2, .sample = false, .pinned_block = 1, .evict = true},
                                {.request_id = 5, .num_tokens = 3, .sample = true, .evict = false}},
                      .stop = true};
  const StepPlan got = ParseStepPlan(Serialise(plan));
  EXPECT_EQ(got.step, plan.step);
  EXPECT_EQ(got.finished, plan.finished);
  ASSERT_EQ(got.admitted.size(), 2u);
  for (size_t i = 0; i < 2; ++i) ExpectEqual(got.admitted[i], plan.admitted[i]);
  ASSERT_EQ(got.items.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(got.items[i].request_id, plan.items[i].request_id);
    EXPECT_EQ(got.items[i].num_tokens, plan.items[i].num_tokens);
    EXPECT_EQ(got.items[i].sample, plan.items[i].sample);
    EXPECT_EQ(got.items[i].pinned_block, plan.items[i].pinned_block);
    EXPECT_EQ(got.items[i].evict, plan.items[i].evict);
  }
  EXPECT_TRUE(got.stop);
}

TEST(StepPlan, AnEmptyPlanComesBackEmpty) {
  const StepPlan got = ParseStepPlan(Serialise(StepPlan{}));
  EXPECT_EQ(got.step, 0);
  EXPECT_TRUE(got.finished.empty() && got.admitted.empty() && got.items.empty());
  EXPECT_FALSE(got.stop);
}

TEST(StepPlanDeathTest, BytesThatAreTooFewOrTooManyEndTheProgram) {
  StepPlan plan;
  plan.admitted = {FullRequest(1)};
  std::vector<std::byte> bytes = Serialise(plan);
  bytes.push_back(std::byte(0));
  EXPECT_DEATH((void)ParseStepPlan(bytes), "");
  bytes.pop_back();
  bytes.pop_back();
  EXPECT_DEATH((void)ParseStepPlan(bytes), "");
}

}  // namespace
}  // namespace winnow
