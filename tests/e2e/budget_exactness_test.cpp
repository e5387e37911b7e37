// Contracts for budgets that do not divide: given in bytes or as a ratio, what is left over goes one token each to the
// first heads of the whole model, so that ranks hold heads of different lengths and still agree on every bit.
#include <gtest/gtest.h>

#include "tests/e2e/requests.h"
#include "tests/support/group_run.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

// 2 layers of 3 KV heads: 2 + 1 of them on two ranks.
class BudgetExactness : public testing::Test {
 protected:
  KvShape Shape() const {
    return {model_.config.num_layers, model_.config.num_kv_heads, 2 * model_.config.head_dim * 2};
  }
  RunOutcome Run(int num_ranks, const std::vector<Request>& requests, int64_t chunk = 512) {
    RunSettings settings{.engine = {.pool_slots = 1024, .check_ranks = true, .poison_released_pages = true},
                         .limits = {.max_num_batched_tokens = chunk}};
    return RunOnThreads(num_ranks, model_.file, model_.config, settings, requests);
  }
  // `left_over` entries more than 48 tokens a head.
  Request InBytes(const std::string& policy, int64_t left_over, EvictionScope scope = EvictionScope::kHead) const {
    Request request = MixedRequest(3, model_.config.vocab_size, 40);
    request.id = 0;
    request.eviction = {.policy = policy, .interval = 13, .recent_tokens = 8, .scope = scope};
    request.eviction.budget_bytes = (Shape().num_heads() * 48 + left_over) * Shape().entry_bytes;
    return Resolved(request);
  }
  Request Resolved(Request request) const {
    request.eviction =
        ResolveEviction(request.eviction, {.prompt_tokens = request.prompt_tokens(), .shape = Shape()}).value();
    return request;
  }

  TinyModel model_{TinyModelSpec{}};
};

TEST_F(BudgetExactness, WhatIsLeftOverChangesNoBitWithTheRankCountOrTheChunks) {
  for (const char* policy : {"random", "h2o", "snapkv", "snapkv-prefill", "keydiff", "r-kv"}) {
    for (int64_t left_over : {1, 4, 5}) {
      const Request request = InBytes(policy, left_over);
      ASSERT_EQ(request.eviction.larger_heads, left_over);
      const RunOutcome one = Run(1, {request});
      ASSERT_GT(one.requests[0].evictions, 0) << policy;
      for (int ranks : {2, 3}) {
        const RunOutcome other = Run(ranks, {request}, 7);
        ASSERT_TRUE(other.status.ok()) << other.status.message();
        EXPECT_TRUE(one.SameBits(other)) << policy << ", " << left_over << " left over, " << ranks << " ranks\n"
                                         << Describe(one) << Describe(other);
      }
    }
  }
}

TEST_F(BudgetExactness, EveryEntryOfTheTotalIsKeptAfterAnEviction) {
  for (int64_t left_over : {0, 1, 5}) {
    Request request = InBytes("random", left_over);
    // The last token that goes through the model brings the text to the second eviction.
    const int64_t tokens = request.eviction.budget + 2 * request.eviction.interval;
    request.prompt.resize(20);
    request.max_tokens = tokens - 20 + 1;
    for (int ranks : {1, 2, 3}) {
      const RunOutcome outcome = Run(ranks, {request});
      EXPECT_EQ(outcome.requests[0].evictions, 2);
      EXPECT_EQ(outcome.requests[0].kept_entries * Shape().entry_bytes, *request.eviction.budget_bytes) << ranks;
    }
  }
}

TEST_F(BudgetExactness, LayersThatShareASetGrowTogether) {
  for (const char* policy : {"random", "snapkv", "h2o"}) {
    const Request request = InBytes(policy, 5, EvictionScope::kLayer);
    ASSERT_EQ(request.eviction.larger_heads, 3);  // the first layer; two entries stay unspent
    const RunOutcome one = Run(1, {request});
    for (int ranks : {2, 3}) EXPECT_TRUE(one.SameBits(Run(ranks, {request}, 16))) << policy << " " << ranks;
  }
}

TEST_F(BudgetExactness, OneEntryMoreIsAnotherResult) {
  // The control: without it the tests above could not see an entry that went missing.
  const RunOutcome without = Run(1, {InBytes("random", 0)}), with = Run(1, {InBytes("random", 1)});
  EXPECT_NE(without.requests[0].kept_hash, with.requests[0].kept_hash);
}

TEST_F(BudgetExactness, AReplayCarriesTheResolvedRatio) {
  Request request = MixedRequest(3, model_.config.vocab_size, 40);
  request.id = 0;
  request.eviction = {.policy = "random", .interval = 13, .recent_tokens = 8};
  request.eviction.budget_ratio = 0.43;
  request = Resolved(request);
  ASSERT_GT(request.eviction.larger_heads, 0);
  const RunOutcome whole = Run(1, {request});
  constexpr int64_t kDone = 17;
  const auto& tokens = whole.requests[0].token_ids;
  Request rest = request;
  rest.original_prompt_tokens = int64_t(request.prompt.size());
  rest.prompt.insert(rest.prompt.end(), tokens.begin(), tokens.begin() + kDone);
  rest.max_tokens -= kDone;
  EXPECT_EQ(Resolved(rest).eviction.larger_heads, request.eviction.larger_heads);  // of the prompt, not of what is fed
  EXPECT_EQ(Resolved(rest).eviction.budget, request.eviction.budget);
  const RunOutcome replay = Run(2, {rest});
  EXPECT_EQ(replay.requests[0].kept_hash, whole.requests[0].kept_hash);
  EXPECT_EQ(replay.requests[0].token_ids, std::vector<int32_t>(tokens.begin() + kDone, tokens.end()));
}

TEST_F(BudgetExactness, RandomWithAProtectedPromptKeepsThePromptAndDrawsFromTheAnswer) {
  Request request = MixedRequest(1, model_.config.vocab_size, 60);
  request.id = 0;
  request.eviction = {.policy = "random", .budget = 70, .interval = 5, .recent_tokens = 8, .protect_prompt = true};
  request = Resolved(request);
  ASSERT_GT(request.prompt_tokens(), request.eviction.sink_tokens);
  const RunOutcome one = Run(1, {request});
  EXPECT_GT(one.requests[0].evictions, 1);
  for (int ranks : {2, 3}) EXPECT_TRUE(one.SameBits(Run(ranks, {request}, 7))) << ranks;
  Request unprotected = request;
  unprotected.eviction.protect_prompt = false;
  EXPECT_NE(Run(1, {unprotected}).requests[0].kept_hash, one.requests[0].kept_hash);
}

}  // namespace
}  // namespace winnow
