// Contracts E1-E4 by bits on tiny random models: what is computed must not depend on ranks, threads, batch, chunks,
// kernels or a restart. Ranks are threads here; tests/e2e/mpi_exactness compares processes.
#include <gtest/gtest.h>

#include "tests/e2e/requests.h"
#include "tests/support/group_run.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

constexpr int64_t kMaxTokens = 40;

class TinyExactness : public testing::Test {
 protected:
  RunOutcome Run(const RunSettings& settings, int num_ranks, const std::vector<Request>& requests) {
    return RunOnThreads(num_ranks, model_.file, model_.config, settings, requests);
  }
  static RunSettings Settings() { return {.engine = {.pool_slots = 4096, .check_ranks = true}, .limits = {}}; }
  std::vector<Request> Requests(int64_t count) { return MixedRequests(count, model_.config.vocab_size, kMaxTokens); }

  TinyModel model_{TinyModelSpec{}};
};

TEST_F(TinyExactness, RankCountAndThreadsPerRankChangeNoBit) {
  const auto requests = Requests(6);
  RunSettings settings = Settings();
  const RunOutcome one = Run(settings, 1, requests);
  for (const RequestOutcome& request : one.requests) ASSERT_EQ(int64_t(request.token_ids.size()), kMaxTokens);
  EXPECT_GT(one.requests[3].evictions, 1);
  EXPECT_GT(one.requests[1].evicted_entries, 0);
  EXPECT_EQ(one.requests[2].evicted_entries, 0);
  for (int ranks : {1, 2, 3}) {
    for (int threads : {1, 2, 3}) {
      settings.engine.num_threads = threads;
      const RunOutcome other = Run(settings, ranks, requests);
      EXPECT_TRUE(one.SameBits(other)) << ranks << " ranks, " << threads << " threads\n"
                                       << Describe(one) << Describe(other);
    }
  }
}

TEST_F(TinyExactness, NeighboursInTheBatchChangeNoBit) {
  auto requests = Requests(7);
  const RunOutcome together = Run(Settings(), 2, requests);
  Request alone = requests[1];
  alone.id = 0;
  const RunOutcome single = Run(Settings(), 1, {alone});
  EXPECT_EQ(single.requests[0], together.requests[1]) << Describe(single) << Describe(together);
}

TEST_F(TinyExactness, ChunksOfThePromptChangeNoBit) {
  const auto requests = Requests(5);
  RunSettings settings = Settings();
  const RunOutcome whole = Run(settings, 1, requests);
  for (int64_t chunk : {1, 7, 64}) {
    settings.limits.max_num_batched_tokens = chunk;
    const RunOutcome other = Run(settings, 2, requests);
    EXPECT_TRUE(whole.SameBits(other)) << "chunks of " << chunk << "\n" << Describe(whole) << Describe(other);
  }
}

TEST_F(TinyExactness, FewSequencesAtATimeChangeNoBit) {
  const auto requests = Requests(5);
  RunSettings settings = Settings();
  const RunOutcome whole = Run(settings, 1, requests);
  settings.limits.max_num_seqs = 2;
  EXPECT_TRUE(whole.SameBits(Run(settings, 3, requests)));
}

TEST_F(TinyExactness, AReplayFromTheMiddleGoesOnAsIfNothingHadHappened) {
  for (const char* policy : {"random", "streaming-llm", "snapkv", "h2o"}) {
    Request request = MixedRequest(1, model_.config.vocab_size, kMaxTokens);
    request.id = 0;
    request.eviction.policy = policy;
    const RunOutcome whole = Run(Settings(), 1, {request});
    // 17 tokens in: the middle of an eviction interval.
    constexpr size_t kDone = 17;
    const auto& tokens = whole.requests[0].token_ids;
    Request rest = request;
    rest.prompt.insert(rest.prompt.end(), tokens.begin(), tokens.begin() + kDone);
    rest.max_tokens = kMaxTokens - int64_t(kDone);
    const RunOutcome replay = Run(Settings(), 2, {rest});
    EXPECT_EQ(replay.requests[0].token_ids, std::vector<int32_t>(tokens.begin() + kDone, tokens.end())) << policy;
    EXPECT_EQ(replay.requests[0].kept_hash, whole.requests[0].kept_hash) << policy;
  }
}

// Every policy under every scope, each alone: on one rank, on three, and with the prompt in single tokens.
TEST_F(TinyExactness, EveryPolicyAndScopeKeepsTheSameSetsOnAnyRankCount) {
  for (const std::string& policy : PoliciesOfAnyText()) {
    for (EvictionScope scope : {EvictionScope::kHead, EvictionScope::kLayer, EvictionScope::kSequence}) {
      if (!MakePolicy(policy).value()->SupportsScope(scope)) continue;
      Request request = MixedRequest(3, model_.config.vocab_size, 25);
      request.id = 0;
      request.eviction.policy = policy;
      request.eviction.scope = scope;
      request.eviction = ResolveEviction(request.eviction, {.prompt_tokens = request.prompt_tokens()}).value();
      const RunOutcome one = Run(Settings(), 1, {request});
      EXPECT_EQ(one.requests[0].evicted_entries > 0, policy != "full") << policy;
      RunSettings chunked = Settings();
      chunked.limits.max_num_batched_tokens = 1;
      EXPECT_TRUE(one.SameBits(Run(chunked, 3, {request}))) << policy << " " << Name(scope);
    }
  }
}

TEST_F(TinyExactness, PlainKernelsGiveTheBitsOfTheFastOnes) {
  const auto requests = Requests(5);
  RunSettings settings = Settings();
  const RunOutcome fast = Run(settings, 1, requests);
  settings.engine.cpu_kernels = "plain";
  EXPECT_TRUE(fast.SameBits(Run(settings, 2, requests)));
}

TEST_F(TinyExactness, TheQuantisedReferenceGivesTheBitsOfTheCpuBackend) {
  const auto requests = Requests(5);
  RunSettings settings = Settings();
  const RunOutcome cpu = Run(settings, 1, requests);
  settings.engine.backend = "reference";
  EXPECT_TRUE(cpu.SameBits(Run(settings, 2, requests)));
}

TEST_F(TinyExactness, TheGuardBackendRunsTheWholeEngineWithTheSameBits) {
  const auto requests = Requests(5);
  RunSettings settings = Settings();
  const RunOutcome cpu = Run(settings, 1, requests);
  settings.engine.backend = "guard";
  settings.engine.poison_released_pages = true;
  for (int ranks : {1, 3}) EXPECT_TRUE(cpu.SameBits(Run(settings, ranks, requests))) << ranks;
}

TEST_F(TinyExactness, ReleasedAndPoisonedPagesServeOthersWithoutATrace) {
  const auto requests = Requests(6);
  RunSettings settings = Settings();
  const RunOutcome roomy = Run(settings, 1, requests);
  settings.engine.poison_released_pages = true;
  settings.engine.pool_slots = 256;  // two sequences at a time: pages go round
  EXPECT_TRUE(roomy.SameBits(Run(settings, 2, requests)));
}

TEST_F(TinyExactness, FloatSumsAreToldApartFromExactOnes) {
  // The control: with float sums the bits depend on the rank count, and this test can see it. Ranks still agree with
  // each other (check_ranks is on).
  const auto requests = Requests(3);
  RunSettings settings = Settings();
  settings.engine.numerics = Numerics::kFast;
  const RunOutcome one = Run(settings, 1, requests), two = Run(settings, 2, requests);
  EXPECT_TRUE(two.status.ok()) << two.status.message();
  EXPECT_NE(one.requests[0].logits_digest, two.requests[0].logits_digest);
}

// Weight formats, head counts, untied heads: the same contract for every shape that a rank split can cut.
struct ShapeCase {
  const char* name;
  TinyModelSpec spec;
  std::vector<int> ranks;
};

class ModelShapes : public testing::TestWithParam<ShapeCase> {};

TEST_P(ModelShapes, RankCountChangesNoBit) {
  const TinyModel model(GetParam().spec);
  RunSettings settings{.engine = {.pool_slots = 2048, .check_ranks = true}, .limits = {}};
  const auto requests = MixedRequests(5, model.config.vocab_size, 20);
  const RunOutcome one = RunOnThreads(1, model.file, model.config, settings, requests);
  for (int ranks : GetParam().ranks) {
    const RunOutcome other = RunOnThreads(ranks, model.file, model.config, settings, requests);
    EXPECT_TRUE(one.SameBits(other)) << ranks << " ranks\n" << Describe(one) << Describe(other);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, ModelShapes,
    testing::Values(ShapeCase{"Q8_0", {.weights = DType::kQ8_0}, {2, 3, 4, 9}},
                    ShapeCase{"Q4_0", {.weights = DType::kQ4_0}, {2, 3}},
                    ShapeCase{"F32", {.weights = DType::kF32, .embeddings = DType::kF32}, {2, 3}},
                    ShapeCase{"BF16", {.weights = DType::kBF16, .embeddings = DType::kBF16}, {3}},
                    ShapeCase{"UntiedHead", {.tied_embeddings = false}, {2}},
                    ShapeCase{"FiveKvHeads", {.num_query_heads = 5, .num_kv_heads = 5, .ffn_size = 640}, {2, 3, 5}},
                    ShapeCase{"GroupOfFour", {.num_query_heads = 8, .num_kv_heads = 2, .ffn_size = 512}, {2, 8}},
                    ShapeCase{"GroupOfSeven", {.num_query_heads = 14, .num_kv_heads = 2, .ffn_size = 896}, {2, 6}},
                    ShapeCase{"WideHeads", {.num_query_heads = 4, .num_kv_heads = 2, .head_dim = 128}, {2}}),
    [](const testing::TestParamInfo<ShapeCase>& shape) { return std::string(shape.param.name); });

}  // namespace
}  // namespace winnow
