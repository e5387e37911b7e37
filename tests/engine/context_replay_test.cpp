// The replay of a context against double arithmetic that knows nothing of pages or steps (tests/support/naive_llama.h),
// and what may not change its bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <mutex>

#include "engine/context_replay.h"
#include "engine/page_bound.h"
#include "engine/scheduler.h"
#include "tests/e2e/requests.h"
#include "tests/engine/group_engine.h"
#include "tests/support/file_editor.h"
#include "tests/support/naive_llama.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

using testing::HasSubstr;

constexpr TinyModelSpec kFloatModel{
    .num_query_heads = 4, .num_kv_heads = 2, .ffn_size = 256, .weights = DType::kF32, .embeddings = DType::kF32};
constexpr TinyModelSpec kFiveHeads{.num_query_heads = 5, .num_kv_heads = 5, .ffn_size = 640};

struct Asked {
  std::vector<int32_t> tokens = {};
  ReplayPrompt prompt = {.chunk_tokens = 20, .first = {7, 1, 9}, .next = {3, 3, 200, 41, 5}};
  int64_t sink_tokens = 3;
  bool weigh_updates = false;
};

// Appends tokens to a cache and fills it, in steps of `chunk`.
void Read(RankEngine& engine, std::span<const int32_t> tokens, int64_t chunk, SequenceCache* cache) {
  KvBatch batch(engine.pool().backend());
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min(tokens.size(), size_t(chunk)));
    std::vector<int64_t> positions;
    for (size_t i = 0; i < part.size(); ++i) positions.push_back(cache->next_position() + int64_t(i));
    ASSERT_TRUE(cache->Reserve(int64_t(part.size())).ok());
    cache->Append(int64_t(part.size()));
    const KvBatchItem item{cache, int64_t(part.size())};
    ASSERT_TRUE(batch.Build({&item, 1}).ok());
    ForwardResult forward;
    ASSERT_TRUE(engine.transformer()
                    .Forward({.token_ids = part,
                              .positions = positions,
                              .logit_rows = {},
                              .kv = &batch,
                              .pages = engine.pool().pages(),
                              .mass = engine.pool().mass()},
                             &forward)
                    .ok());
    tokens = tokens.subspan(part.size());
  }
}

// Calls f(engine, cache) between reading and replaying.
using Between = std::function<void(RankEngine&, SequenceCache&)>;

// [layer * KV heads of the model + head][slots].
SlotScores ScoresOf(const TinyModel& model, const Asked& asked, int num_ranks, const EngineOptions& options,
                    int64_t chunk, const Between& between = nullptr) {
  SlotScores scores(size_t(model.config.num_layers * model.config.num_kv_heads));
  std::mutex mutex;  // guards scores
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    const auto engine = RankEngine::Make(model.file, model.config, options, communicator, nullptr).value();
    const Range heads = engine->transformer().kv_heads();
    SequenceCache cache(engine->pool(), model.config.num_layers, heads.size(), heads.begin);
    Read(*engine, asked.tokens, chunk, &cache);
    if (between) between(*engine, cache);
    const auto norms = asked.weigh_updates ? ProjectedNorms::Make(engine->transformer()).value() : nullptr;
    const uint64_t kept = cache.KeptHash();
    const int64_t pages = engine->pool().num_used();
    const auto result = ReplayContext(engine->transformer(), engine->pool(),
                                      {.cache = &cache,
                                       .tokens = asked.tokens,
                                       .prompt = &asked.prompt,
                                       .sink_tokens = asked.sink_tokens,
                                       .norms = norms.get(),
                                       .replicas = &engine->runner().replicas()});
    ASSERT_TRUE(result.ok()) << result.status().message();
    ASSERT_TRUE(result->status.ok()) << result->status.message();
    EXPECT_EQ(cache.KeptHash(), kept);
    EXPECT_EQ(engine->pool().num_used(), pages) << "the replay keeps pages";
    const std::lock_guard lock(mutex);
    for (int64_t layer = 0; layer < model.config.num_layers; ++layer) {
      for (int64_t head = 0; head < heads.size(); ++head) {
        scores[size_t(layer * model.config.num_kv_heads + heads.begin + head)] =
            result->scores[size_t(layer * heads.size() + head)];
      }
    }
  });
  return scores;
}

void ExpectNaiveScores(const TinyModelSpec& spec, Asked asked, int num_ranks, int64_t chunk) {
  const TinyModel model(spec);
  asked.tokens = RandomTokens(3, 50, 250);
  const SlotScores got = ScoresOf(
      model, asked, num_ranks, {.backend = "reference-float", .kv_cache_dtype = DType::kF32, .pool_slots = 512}, chunk);
  const auto want = NaiveLlama(model.file, model.config)
                        .ReplayScores(asked.tokens, {.chunk_tokens = asked.prompt.chunk_tokens,
                                                     .first = asked.prompt.first,
                                                     .next = asked.prompt.next,
                                                     .sink_tokens = asked.sink_tokens,
                                                     .weigh_updates = asked.weigh_updates});
  ASSERT_EQ(got.size(), want.size());
  for (size_t head = 0; head < want.size(); ++head) {
    ASSERT_EQ(got[head].size(), want[head].size());
    for (size_t i = 0; i < want[head].size(); ++i) {
      ASSERT_GT(want[head][i], 0);
      ASSERT_NEAR(got[head][i], want[head][i], 1e-3 * want[head][i]) << "head " << head << ", position " << i;
    }
  }
}

// Chunks of 20 tokens and a rest of 10, each after its instruction.
TEST(ContextReplay, ScoresAreThoseOfPlainDoubles) {
  ExpectNaiveScores(kFloatModel, {}, 1, 50);
}
TEST(ContextReplay, ScoresOfUpdatesAreThoseOfPlainDoubles) {
  ExpectNaiveScores(kFloatModel, {.weigh_updates = true}, 2, 16);
}
TEST(ContextReplay, AContextOfOneChunkWithoutWordsIsRepeatedAsItIs) {
  ExpectNaiveScores(kFloatModel, {.prompt = {}, .sink_tokens = 0}, 1, 50);
}
// Less than 8 tokens before a chunk, more sinks than a chunk has tokens, groups of one.
TEST(ContextReplay, ChunksMayBeShorterThanTheirInstructionAndTheSinks) {
  TinyModelSpec spec = kFloatModel;
  spec.num_query_heads = spec.num_kv_heads = 3;
  spec.ffn_size = 384;
  ExpectNaiveScores(spec, {.prompt = {.chunk_tokens = 6}, .sink_tokens = 9, .weigh_updates = true}, 3, 7);
}
TEST(ContextReplay, ScoresOfQuantisedWeightsAreThoseOfPlainDoubles) {
  TinyModelSpec spec = kFloatModel;
  spec.weights = DType::kQ4_1;
  ExpectNaiveScores(spec, {}, 1, 50);
}

TEST(ContextReplay, RanksThreadsChunksAndBackendsChangeNoBit) {
  const TinyModel model(kFiveHeads);
  for (bool weigh_updates : {false, true}) {
    const Asked asked{.tokens = RandomTokens(4, 70, 250), .weigh_updates = weigh_updates};
    const SlotScores alone = ScoresOf(model, asked, 1, {.pool_slots = 512}, 70);
    EXPECT_EQ(ScoresOf(model, asked, 2, {.num_threads = 2, .pool_slots = 512}, 9), alone);
    for (int ranks : {3, 5}) EXPECT_EQ(ScoresOf(model, asked, ranks, {.pool_slots = 512}, 17), alone) << ranks;
    EXPECT_EQ(ScoresOf(model, asked, 1, {.backend = "guard", .pool_slots = 512}, 1), alone);
    EXPECT_EQ(ScoresOf(model, asked, 1, {.backend = "reference", .pool_slots = 512}, 33), alone);
  }
}

// Each replica has the peaks of its own query heads: 2 + 1, 1 + 1 + 1, or all 3 of a KV head.
TEST(ContextReplay, ReplicasOfAKvHeadPutTheirPeaksTogether) {
  const TinyModel model{{}};
  for (bool weigh_updates : {false, true}) {
    const Asked asked{.tokens = RandomTokens(4, 50, 250), .weigh_updates = weigh_updates};
    const SlotScores alone = ScoresOf(model, asked, 1, {.pool_slots = 512}, 50);
    for (int ranks : {4, 8}) EXPECT_EQ(ScoresOf(model, asked, ranks, {.pool_slots = 512}, 50), alone) << ranks;
  }
}

// More rows than a step of the replay has.
TEST(ContextReplay, LongChunksAreReadInSteps) {
  const TinyModel model({.num_layers = 1, .num_query_heads = 2, .num_kv_heads = 2, .ffn_size = 256});
  const Asked asked{.tokens = RandomTokens(5, 700, 250), .prompt = {}};
  const SlotScores scores = ScoresOf(model, asked, 1, {.pool_slots = 2304}, 512);
  EXPECT_EQ(ScoresOf(model, asked, 2, {.pool_slots = 2304}, 100), scores);
}

// Heads that have lost slots, and slots that belong to no token, as a saved text with more text behind it has them.
TEST(ContextReplay, UnevenHeadsAndPinnedSlotsAreReplayedAsTheyAre) {
  const TinyModel model(kFiveHeads);
  const Asked asked{.tokens = RandomTokens(4, 45, 250)};
  const auto between = [&](RankEngine& engine, SequenceCache& cache) {
    const size_t floats = size_t(3 * cache.num_layers() * cache.num_kv_heads() * cache.head_dim());
    ASSERT_TRUE(cache.Reserve(3).ok());
    cache.AppendPinned(3, std::vector<float>(floats, 0.1f), std::vector<float>(floats, 0.2f));
    KeepPlan plan;
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
      for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
        std::vector<int32_t>& kept = plan.kept.emplace_back();
        for (int32_t slot = 0; slot < 48; ++slot) {
          if (slot >= 45 || slot % (2 + layer + cache.first_kv_head() + head) != 1) kept.push_back(slot);
        }
      }
    }
    cache.Compact(plan);
    ASSERT_EQ(engine.pool().num_used(), cache.num_pages());
  };
  const SlotScores alone = ScoresOf(model, asked, 1, {.pool_slots = 512}, 45, between);
  EXPECT_EQ(alone[0].size(), 25u + 3u - 2u);  // every second slot of 45 is gone
  for (const std::vector<float>& head : alone) {
    for (float score : head) EXPECT_GT(score, 0);
  }
  EXPECT_EQ(ScoresOf(model, asked, 3, {.pool_slots = 512}, 45, between), alone);
}

Request ReplayRequest(int64_t id, int64_t prompt_tokens) {
  Request request = Greedy(id, RandomTokens(uint64_t(11 + id), prompt_tokens, 250), 8);
  request.eviction = ResolveEviction({.policy = "kvzip", .budget = 30, .sink_tokens = 3, .recent_tokens = 5},
                                     {.prompt_tokens = prompt_tokens})
                         .value();
  return request;
}

// While it is replayed a context needs more than it or its answer ever does; admission has reserved that, and no more.
TEST(ContextReplay, RunsInExactlyThePagesReserved) {
  const TinyModel model(kFiveHeads);
  for (const char* policy : {"kvzip", "kvzip-plus"}) {
    Request request = ReplayRequest(0, 70);
    request.eviction.policy = policy;
    request.max_tokens = 1;
    request.eviction.replay_prompt = {.chunk_tokens = 50, .first = std::vector<int32_t>(9, 5), .next = {3}};
    const KvShards shards{.num_layers = model.config.num_layers, .kv_heads = {{0, 5}}};
    const int64_t slots = PoolSlotsOf(PagesToReserve(request, shards), shards);
    EXPECT_EQ(slots, 80 + 128);  // 3 sinks, 50 of the chunk, 9 + 8 of the instruction, 50 of the pass
    const GroupRun run = RunGroup(1, model.file, model.config, {.pool_slots = slots}, {}, {request});
    EXPECT_TRUE(run.completions.at(0).error.ok());
    Scheduler scheduler({.pool_slots = slots - kPageSlots, .shards = shards});
    EXPECT_EQ(scheduler.Submit(request).code(), StatusCode::kOutOfMemory);
    request.eviction.budget = 70;  // never evicted, never replayed
    EXPECT_EQ(PoolSlotsOf(PagesToReserve(request, shards), shards), 80);
  }
}

TEST(ContextReplay, RowsAreCountedApart) {
  const TinyModel model(kFiveHeads);
  Request request = ReplayRequest(0, 70);
  request.eviction.replay_prompt = {.chunk_tokens = 32, .first = {1, 2}, .next = {3}};
  const GroupRun run = RunGroup(2, model.file, model.config, {.pool_slots = 512}, {}, {request});
  EXPECT_EQ(run.work.rows, 70 + 7);
  EXPECT_EQ(run.work.replay_rows, (2 + 32) + (1 + 8 + 32) + (1 + 8 + 6));
  EXPECT_EQ(run.work.replay.calls, 3 * (1 + 2 * model.config.num_layers));
}

TEST(ContextReplay, AReplayThatIsNotFiniteEndsItsRequestAndNoOther) {
  constexpr int32_t kBadToken = 251;
  TinyModelSpec spec = kFiveHeads;
  spec.weights = spec.embeddings = DType::kF32;
  spec.tied_embeddings = false;
  FileEditor editor(spec);
  editor.KeepFromBeingDrawn(kBadToken);
  editor.Set("token_embd.weight", kBadToken, 3, std::numeric_limits<float>::quiet_NaN());
  const GgufFile file = editor.Open();
  const Request good = ReplayRequest(1, 60);
  Request bad = ReplayRequest(2, 70);
  bad.eviction.replay_prompt.first = {5, kBadToken};
  const GroupRun without = RunGroup(1, file, editor.config(), {.pool_slots = 1024}, {}, {good});
  for (int ranks : {1, 2}) {
    const GroupRun with =
        RunGroup(ranks, file, editor.config(), {.pool_slots = 1024, .check_ranks = true}, {}, {bad, good});
    const Completion& failed = with.completions.at(2);
    EXPECT_EQ(failed.finish_reason, FinishReason::kError);
    EXPECT_EQ(failed.error.code(), StatusCode::kNumerical);
    EXPECT_THAT(failed.error.message(), HasSubstr("position 71, where the context is replayed"));
    EXPECT_TRUE(failed.token_ids.empty());
    ExpectSameBits(with.completions.at(1), without.completions.at(1));
    for (int64_t pages : with.pages_left) EXPECT_EQ(pages, 0);
  }
}

}  // namespace
}  // namespace winnow
