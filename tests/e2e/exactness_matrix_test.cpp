// E1-E4 on a tiny model as a covering design. Every policy and scope, greedy and sampled, is one request (54 of them).
// Every cell of ranks {1, 2, 3} x threads per rank {1, 2, 3} x prompt chunks {1, 7, 64, all} is run, again and again,
// with a batch of 7 requests (every fifth time with one alone), taken in turn from the list, every second one as a
// replay that was interrupted in the middle of an eviction interval, until every request has met every rank count,
// every thread count, every chunk, and was whole and replayed. The full product would be 36 x 54 x 2 x 2 runs.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "tests/e2e/requests.h"
#include "tests/support/group_run.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

constexpr int64_t kMaxTokens = 20, kDone = 9;

// One request for every policy, scope and way of sampling.
std::vector<Request> EveryKindOfRequest(int32_t vocab_size) {
  std::vector<Request> requests;
  for (const std::string& policy : PoliciesOfAnyText()) {
    for (EvictionScope scope : {EvictionScope::kHead, EvictionScope::kLayer, EvictionScope::kSequence}) {
      if (!MakePolicy(policy).value()->SupportsScope(scope)) continue;
      if (policy == "full" && scope != EvictionScope::kHead) continue;
      for (bool is_sampled : {false, true}) {
        const int64_t index = int64_t(requests.size());
        Request request;
        request.prompt = RandomTokens(uint64_t(300 + index), 20 + 13 * (index % 4), vocab_size);
        request.max_tokens = kMaxTokens;
        if (is_sampled) request.sampling = {.temperature = 1.1f, .top_k = 50, .top_p = 0.95f, .min_p = 0.01f};
        request.sampling.seed = uint64_t(index);
        const EvictionSettings asked{
            .policy = policy, .budget = 16, .interval = 6, .sink_tokens = 2, .recent_tokens = 4, .scope = scope};
        request.eviction = ResolveEviction(asked, {.prompt_tokens = request.prompt_tokens()}).value();
        requests.push_back(request);
      }
    }
  }
  return requests;
}

class ExactnessMatrix : public testing::Test {
 protected:
  struct Cell {
    int ranks, threads;
    int64_t chunk;
  };

  void SetUp() override {
    for (const Request& request : requests_) {
      expected_.push_back(Run({1, 1, 512}, {request}).requests[0]);
      if (request.eviction.evicts()) {
        ASSERT_GT(expected_.back().evictions, 0) << request.eviction.policy;
      }
    }
  }
  static RunSettings Settings(const Cell& cell) {
    return {.engine = {.num_threads = cell.threads, .pool_slots = 1024, .check_ranks = true},
            .limits = {.max_num_batched_tokens = cell.chunk}};
  }
  RunOutcome Run(const Cell& cell, std::vector<Request> requests) {
    for (size_t i = 0; i < requests.size(); ++i) requests[i].id = int64_t(i);
    const RunOutcome outcome = RunOnThreads(cell.ranks, model_.file, model_.config, Settings(cell), requests);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    return outcome;
  }
  // The request fed again with the first kDone tokens of its answer.
  Request ReplayOf(size_t index) const {
    Request request = requests_[index];
    request.original_prompt_tokens = int64_t(request.prompt.size());
    const auto& tokens = expected_[index].token_ids;
    request.prompt.insert(request.prompt.end(), tokens.begin(), tokens.begin() + kDone);
    request.max_tokens -= kDone;
    return request;
  }
  void ExpectSame(size_t index, bool is_replay, const RequestOutcome& got) const {
    const RequestOutcome& want = expected_[index];
    if (!is_replay) {
      EXPECT_EQ(got, want);
      return;
    }
    EXPECT_EQ(got.token_ids, std::vector<int32_t>(want.token_ids.begin() + kDone, want.token_ids.end()));
    EXPECT_EQ(got.logprobs, std::vector<float>(want.logprobs.begin() + kDone, want.logprobs.end()));
    EXPECT_EQ(got.kept_hash, want.kept_hash);
    EXPECT_EQ(got.kept_entries, want.kept_entries);
    EXPECT_EQ(got.evicted_entries, want.evicted_entries);
    EXPECT_EQ(got.evictions, want.evictions);
  }

  TinyModel model_{{.num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 384}};
  std::vector<Request> requests_ = EveryKindOfRequest(model_.config.vocab_size);
  std::vector<RequestOutcome> expected_;  // of each, alone on one rank and one thread, the prompt at once
};

TEST_F(ExactnessMatrix, EveryCellGivesEveryRequestTheBitsItHasAlone) {
  std::vector<Cell> cells;
  for (int ranks : {1, 2, 3}) {
    for (int threads : {1, 2, 3}) {
      for (int64_t chunk : {1, 7, 64, 512}) cells.push_back({ranks, threads, chunk});
    }
  }
  std::set<std::tuple<size_t, char, int64_t>> met;  // (request, dimension, value)
  const size_t to_meet = requests_.size() * (3 + 3 + 4 + 2);
  size_t next = 0;
  for (size_t run = 0; run < cells.size() || met.size() < to_meet; ++run) {
    ASSERT_LT(run, 8 * cells.size()) << "the design does not cover: " << met.size() << " of " << to_meet;
    const Cell& cell = cells[run % cells.size()];
    std::vector<Request> batch;
    std::vector<std::pair<size_t, bool>> members;
    for (size_t i = 0; i < (run % 5 == 4 ? 1u : 7u); ++i, ++next) {
      const size_t index = next % requests_.size();
      const bool is_replay = (next / requests_.size() + next) % 2 == 1;
      members.emplace_back(index, is_replay);
      batch.push_back(is_replay ? ReplayOf(index) : requests_[index]);
      met.insert({{index, 'r', cell.ranks}, {index, 't', cell.threads}, {index, 'c', cell.chunk}});
      met.insert({index, 'p', is_replay});
    }
    const RunOutcome outcome = Run(cell, batch);
    for (size_t i = 0; i < batch.size(); ++i) ExpectSame(members[i].first, members[i].second, outcome.requests[i]);
    ASSERT_FALSE(HasFailure()) << cell.ranks << " ranks, " << cell.threads << " threads, chunks of " << cell.chunk;
  }
}

// A KV head on each of five ranks. All requests, whole and replayed, in one run.
TEST(ExactnessOnFiveRanks, EveryKindOfRequestHasTheBitsOfOneRank) {
  const TinyModel model({.num_query_heads = 5, .num_kv_heads = 5, .ffn_size = 640});
  std::vector<Request> requests = EveryKindOfRequest(model.config.vocab_size);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].id = int64_t(i);
  RunSettings settings{.engine = {.pool_slots = 1024, .check_ranks = true}, .limits = {}};
  const RunOutcome one = RunOnThreads(1, model.file, model.config, settings, requests);
  settings.limits.max_num_batched_tokens = 40;
  const RunOutcome five = RunOnThreads(5, model.file, model.config, settings, requests);
  EXPECT_TRUE(five.status.ok()) << five.status.message();
  EXPECT_TRUE(one.SameBits(five)) << Describe(one) << Describe(five);
}

// Query heads of a KV head on different ranks: 2 + 1, 2 + 1 and 3 of them. All requests, whole, in one run.
TEST(ExactnessOnReplicas, EveryKindOfRequestHasTheBitsOfOneRank) {
  const TinyModel model{{}};
  std::vector<Request> requests = EveryKindOfRequest(model.config.vocab_size);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].id = int64_t(i);
  RunSettings settings{.engine = {.pool_slots = 1024, .check_ranks = true}, .limits = {}};
  const RunOutcome one = RunOnThreads(1, model.file, model.config, settings, requests);
  settings.limits.max_num_batched_tokens = 40;
  const RunOutcome five = RunOnThreads(5, model.file, model.config, settings, requests);
  EXPECT_TRUE(five.status.ok()) << five.status.message();
  EXPECT_TRUE(one.SameBits(five)) << Describe(one) << Describe(five);
}

}  // namespace
}  // namespace winnow
