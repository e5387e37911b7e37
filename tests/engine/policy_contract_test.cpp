// What every policy of the registry promises, with the whole engine around it: a new policy is covered by its registry
// line. Scores by themselves are tested in tests/policies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/e2e/requests.h"
#include "tests/engine/group_engine.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kPromptTokens = 70, kMaxTokens = 26;
constexpr TinyModelSpec kFiveHeads{.num_query_heads = 5, .num_kv_heads = 5, .ffn_size = 640};

EngineOptions Options() {
  return {.pool_slots = 512, .check_ranks = true, .poison_released_pages = true};
}

class PolicyContract : public testing::TestWithParam<std::string> {
 protected:
  static EvictionSettings Asked(EvictionScope scope) {
    return {.policy = GetParam(), .budget = 30, .interval = 7, .sink_tokens = 3, .recent_tokens = 5, .scope = scope};
  }
  // A text with evictions in the prompt and while answering. A policy that looks at the future gets a text of the same
  // length that is known to its end, and of which what it attends to is recorded.
  static Request Ask(EvictionScope scope, int64_t prompt_tokens = kPromptTokens, int64_t max_tokens = kMaxTokens) {
    Request request;
    request.prompt = RandomTokens(11, prompt_tokens, 250);
    request.max_tokens = max_tokens;
    request.sampling.seed = 5;
    request.eviction = ResolveEviction(Asked(scope), {.prompt_tokens = prompt_tokens, .has_future = true}).value();
    if (!IsOfKnownTexts()) return request;
    request.prompt = RandomTokens(11, prompt_tokens + max_tokens - 1, 250);
    request.original_prompt_tokens = prompt_tokens;
    request.max_tokens = 1;
    request.recording = prompt_tokens;
    return request;
  }
  static bool IsOfKnownTexts() { return MakePolicy(GetParam()).value()->observations().future; }
  // full has no kept set and takes any scope.
  std::vector<EvictionScope> Scopes(bool supported = true) const {
    std::vector<EvictionScope> scopes;
    for (EvictionScope scope : {EvictionScope::kHead, EvictionScope::kLayer, EvictionScope::kSequence}) {
      if (policy_->SupportsScope(scope) == supported) scopes.push_back(scope);
    }
    return scopes;
  }
  bool IsUniform() const { return policy_->allocation() == BudgetAllocation::kHead && !policy_->HasLayerBudgets(); }
  static GroupRun Run(const TinyModel& model, int num_ranks, const std::vector<Request>& requests,
                      const SchedulerLimits& limits = {}, const EngineOptions& options = Options(),
                      const CacheWatch& watch = nullptr) {
    GroupRun run = RunGroup(num_ranks, model.file, model.config, options, limits, requests, watch);
    EXPECT_EQ(run.pages_left, std::vector<int64_t>(size_t(num_ranks), 0)) << "memory is kept";
    return run;
  }

  const std::unique_ptr<EvictionPolicy> policy_ = MakePolicy(GetParam()).value();
};

INSTANTIATE_TEST_SUITE_P(All, PolicyContract, testing::ValuesIn(PolicyNames()), [](const auto& policy) {
  std::string name = policy.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Slots that heads hold after a step, on average: the words of docs/policies.md. Heads that compete for slots, and
// layers with budgets of their own, share out the same total.
void ExpectTotal(const Request& request, const StepItem& item, int64_t total, int64_t heads, int64_t seen) {
  const EvictionSettings& settings = request.eviction;
  if (!settings.evicts()) {
    ASSERT_EQ(total, seen * heads);
  } else if (settings.timing == EvictionTiming::kChunked) {
    if (item.evict) {
      ASSERT_EQ(total, settings.budget * heads);
    }
    ASSERT_LT(total, settings.Trigger() * heads);
  } else if (seen < request.prompt_tokens()) {
    ASSERT_EQ(total, seen * heads);
  } else {
    ASSERT_EQ(total, (std::min(settings.budget, request.prompt_tokens()) + seen - request.prompt_tokens()) * heads);
  }
}

void ExpectSinksAndRecent(const EvictionSettings& settings, const std::vector<int32_t>& positions, int64_t seen) {
  ASSERT_TRUE(std::is_sorted(positions.begin(), positions.end()));
  for (int64_t i = 0; i < std::min(settings.sink_tokens, seen); ++i) ASSERT_EQ(positions[size_t(i)], i);
  for (int64_t i = 1; i <= std::min(std::max<int64_t>(settings.recent_tokens, 1), seen); ++i) {
    ASSERT_EQ(positions[positions.size() - size_t(i)], seen - i);
  }
}

// After every step on every head, with query groups of 1, 3, 4 and 7.
TEST_P(PolicyContract, EveryHeadHoldsItsBudgetWithSinksAndRecentTokensAtEveryStep) {
  for (int64_t group : {1, 3, 4, 7}) {
    const TinyModel model({.num_query_heads = 2 * group, .num_kv_heads = 2, .ffn_size = 128 * group});
    for (EvictionScope scope : Scopes()) {
      const Request request = Ask(scope);
      int64_t most = 0, before = 0;
      const auto watch = [&](int, const StepItem& item, const SequenceCache& cache, PagePool& pool) {
        const int64_t seen = cache.tokens_seen(), heads = cache.num_layers() * cache.num_kv_heads();
        std::set<std::vector<int32_t>> sets;
        std::set<size_t> lengths;
        int64_t total = 0, pages = 0;
        for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
          for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
            const std::vector<int32_t>& positions = cache.head(layer, head).positions;
            total += int64_t(positions.size());
            pages += (int64_t(positions.size()) + kPageSlots - 1) / kPageSlots;
            sets.insert(positions);
            lengths.insert(positions.size());
            ExpectSinksAndRecent(request.eviction, positions, seen);
            if (scope == EvictionScope::kLayer && policy_->evicts()) {
              ASSERT_EQ(positions, cache.head(layer, 0).positions);
            }
          }
        }
        ExpectTotal(request, item, total, heads, seen);
        if (scope == EvictionScope::kSequence && IsUniform()) {
          ASSERT_EQ(sets.size(), 1u);
        }
        if (IsUniform()) {
          ASSERT_EQ(lengths.size(), 1u);
        }
        ASSERT_EQ(cache.num_pages(), pages);
        ASSERT_EQ(pool.num_used(), pages);
        most = std::max(most, before + item.num_tokens);
        before = total / heads;
      };
      const GroupRun run = Run(model, 1, {request}, {.max_num_batched_tokens = 16}, Options(), watch);
      ASSERT_FALSE(HasFailure()) << Name(scope) << ", group of " << group;
      const SequenceReport& report = run.completions.at(0).kv;
      EXPECT_EQ(report.kept_entries + report.evicted_entries, report.full_entries);
      EXPECT_EQ(report.full_entries, (kPromptTokens + kMaxTokens - 1) * model.config.num_layers * 2);
      EXPECT_EQ(report.evicted_entries > 0, policy_->evicts()) << "reported under its name without evicting";
      EXPECT_EQ(report.evictions > 0, policy_->evicts());
      if (policy_->evicts()) {
        EXPECT_EQ(most, policy_->timing() == EvictionTiming::kChunked ? request.eviction.Trigger() : kPromptTokens);
        EXPECT_GT(report.pages_freed, 0);
      }
    }
  }
}

TEST_P(PolicyContract, RanksBatchChunksThreadsAndBackendChangeNoBit) {
  const TinyModel model(kFiveHeads);
  for (EvictionScope scope : Scopes()) {
    Request request = Ask(scope);
    request.sampling = {.temperature = 1.1f, .top_k = 60, .seed = 5};
    const Completion alone = Run(model, 1, {request}).completions.at(0);
    // Neighbours: another text of the same policy, and other policies.
    std::vector<Request> batch = {Ask(scope, 40), request, MixedRequest(2, 250, 12)};
    batch[1].id = 9;
    struct Case {
      int ranks, threads;
      int64_t chunk;
      const char* backend;
    };
    for (const Case& c : {Case{1, 2, 1, "cpu"}, Case{2, 1, 7, "cpu"}, Case{3, 1, 64, "guard"}, Case{5, 1, 20, "cpu"}}) {
      EngineOptions options = Options();
      options.num_threads = c.threads;
      options.backend = c.backend;
      const GroupRun run = Run(model, c.ranks, batch, {.max_num_batched_tokens = c.chunk}, options);
      ExpectSameBits(run.completions.at(9), alone);
      ASSERT_FALSE(HasFailure()) << Name(scope) << ", " << c.ranks << " ranks, chunks of " << c.chunk;
    }
  }
}

// Nine query heads and three KV heads: some ranks hold a part of a KV head's query heads. check_ranks compares what the
// replicas of a KV head keep.
TEST_P(PolicyContract, ReplicasOfKvHeadsKeepWhatOneRankKeeps) {
  const TinyModel model{{}};
  const std::vector<EvictionScope> scopes = Scopes();
  for (size_t i = 0; i < scopes.size(); ++i) {
    const Request request = Ask(scopes[i]);
    const Completion alone = Run(model, 1, {request}).completions.at(0);
    const std::vector<std::vector<int>> ranks_of_scopes = {{5, 9}, {4}, {7}};
    for (int ranks : ranks_of_scopes[i]) {
      const Completion split = Run(model, ranks, {request}, {.max_num_batched_tokens = 31}).completions.at(0);
      ExpectSameBits(split, alone);
      EXPECT_EQ(split.kv.pages_freed, alone.kv.pages_freed);
      EXPECT_EQ(split.kv.full_entries, alone.kv.full_entries);
      ASSERT_FALSE(HasFailure()) << Name(scopes[i]) << ", " << ranks << " ranks";
    }
  }
}

// Keys that are all zero: every query attends alike to all that it sees, every key is like every other.
TEST_P(PolicyContract, DeliberateTiesEndAlikeOnAnyRankCountAndGoToTheHigherPosition) {
  TinyModelSpec spec = kFiveHeads;
  spec.weights = spec.embeddings = DType::kF32;
  spec.key_gain = 0;
  const TinyModel model(spec);
  const std::set<std::string> all_tie = {"keydiff", "knorm", "tova", "streaming-llm", "streaming-llm-compacted"};
  for (EvictionScope scope : Scopes()) {
    const Request request = Ask(scope);
    const EvictionSettings& settings = request.eviction;
    const auto watch = [&](int, const StepItem& item, const SequenceCache& cache, PagePool&) {
      if (!item.evict || !all_tie.contains(GetParam())) return;
      std::vector<int32_t> expected;
      for (int64_t i = 0; i < settings.budget; ++i) {
        const int64_t newest = cache.tokens_seen() - settings.budget + i;
        expected.push_back(int32_t(i < settings.sink_tokens ? i : newest));
      }
      ASSERT_EQ(cache.head(0, 0).positions, expected);
      ASSERT_EQ(cache.head(1, cache.num_kv_heads() - 1).positions, expected);
    };
    const Completion one = Run(model, 1, {request}, {}, Options(), watch).completions.at(0);
    for (int ranks : {2, 5}) {
      ExpectSameBits(Run(model, ranks, {request}, {.max_num_batched_tokens = 9}).completions.at(0), one);
    }
    ASSERT_FALSE(HasFailure()) << Name(scope);
  }
}

TEST_P(PolicyContract, AContextWithinTheBudgetHasTheBitsOfTheFullCache) {
  const TinyModel model({.num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 384});
  for (int64_t prompt_tokens : {1, 2, 20}) {
    // The last token is not fed back: 24 are seen.
    Request request = Ask(Scopes().front(), prompt_tokens, 24 + 1 - prompt_tokens);
    const Completion completion = Run(model, 2, {request}, {.max_num_batched_tokens = 5}).completions.at(0);
    EXPECT_EQ(completion.kv.evicted_entries, 0);
    request.eviction = {};
    request.recording = 0;
    ExpectSameBits(completion, Run(model, 1, {request}).completions.at(0));
  }
}

TEST_P(PolicyContract, AScopeThatItDoesNotHaveIsRefusedByName) {
  for (EvictionScope scope : Scopes(false)) {
    const Status status = ResolveEviction(Asked(scope), {.prompt_tokens = kPromptTokens, .has_future = true}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(GetParam()), HasSubstr(std::string(Name(scope)))));
  }
  EXPECT_TRUE(policy_->SupportsScope(policy_->scope()));
}

// E4: fed again with what it had answered, the cache is rebuilt with all its evictions and the answer goes on.
TEST_P(PolicyContract, AReplayInTheMiddleOfAnIntervalGoesOn) {
  if (IsOfKnownTexts()) return;  // there is no answer to go on with
  const TinyModel model({.num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 384});
  for (EvictionScope scope : Scopes()) {
    Request request = Ask(scope);
    const Completion whole = Run(model, 1, {request}).completions.at(0);
    constexpr int64_t kDone = 12;  // evictions come every 7 tokens: not between two, where replay would be easy
    const auto middle = whole.token_ids.begin() + kDone;
    request.original_prompt_tokens = kPromptTokens;
    request.prompt.insert(request.prompt.end(), whole.token_ids.begin(), middle);
    request.max_tokens = kMaxTokens - kDone;
    const Completion rest = Run(model, 3, {request}, {.max_num_batched_tokens = 13}).completions.at(0);
    EXPECT_EQ(rest.token_ids, std::vector<int32_t>(middle, whole.token_ids.end()));
    EXPECT_EQ(rest.logprobs, std::vector<float>(whole.logprobs.begin() + kDone, whole.logprobs.end()));
    EXPECT_EQ(rest.kv.kept_hash, whole.kv.kept_hash);
    EXPECT_EQ(rest.kv.evictions, whole.kv.evictions);
    ASSERT_FALSE(HasFailure()) << Name(scope);
  }
}

}  // namespace
}  // namespace winnow
