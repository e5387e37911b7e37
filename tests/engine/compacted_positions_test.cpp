// Positions of streaming-llm-compacted with the engine around it. With a single layer, keys and values depend on a
// token and its rotary position alone, so that the cache must be that of a new text which consists of the kept tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/dummy_weights.h"
#include "tests/e2e/requests.h"
#include "tests/engine/group_engine.h"
#include "tests/support/gguf_copy.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

using testing::HasSubstr;

constexpr int64_t kBudget = 24, kInterval = 8, kSinks = 3;

Request Ask(const std::vector<int32_t>& prompt, int64_t max_tokens, const std::string& policy) {
  Request request;
  request.prompt = prompt;
  request.max_tokens = max_tokens;
  request.eviction = ResolveEviction({.policy = policy,
                                      .budget = policy == "full" ? 0 : kBudget,
                                      .interval = kInterval,
                                      .sink_tokens = kSinks,
                                      .recent_tokens = 4},
                                     {.prompt_tokens = int64_t(prompt.size())})
                         .value();
  return request;
}

struct Heads {
  std::vector<std::vector<float>> keys, values;  // [head]
  std::vector<int32_t> positions;
};

Heads Read(const SequenceCache& cache) {
  Heads heads{.keys = {}, .values = {}, .positions = cache.head(0, 0).positions};
  for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
    heads.keys.push_back(cache.ReadKeys(0, head));
    heads.values.push_back(cache.ReadValues(0, head));
  }
  return heads;
}

void ExpectTheCacheOfATextOfTheKeptTokens(const GgufFile& file, const ModelConfig& config) {
  const EngineOptions options{.kv_cache_dtype = DType::kF32, .pool_slots = 512, .check_ranks = true};
  const std::vector<int32_t> prompt = RandomTokens(3, 90, 250);
  std::vector<Heads> seen;
  RunGroup(1, file, config, options, {.max_num_batched_tokens = 5}, {Ask(prompt, 1, "streaming-llm-compacted")},
           [&](int, const StepItem&, const SequenceCache& cache, PagePool&) { seen.push_back(Read(cache)); });
  int64_t evicted = 0;
  for (const Heads& heads : seen) {
    ASSERT_LT(heads.positions.size(), size_t(kBudget + kInterval));
    std::vector<int32_t> kept;
    for (int32_t position : heads.positions) kept.push_back(prompt[size_t(position)]);
    Heads fresh;
    RunGroup(1, file, config, options, {}, {Ask(kept, 1, "full")},
             [&](int, const StepItem&, const SequenceCache& cache, PagePool&) { fresh = Read(cache); });
    for (size_t head = 0; head < 3; ++head) {
      ASSERT_EQ(heads.values[head], fresh.values[head]);
      ASSERT_EQ(heads.keys[head].size(), fresh.keys[head].size());
      for (size_t i = 0; i < heads.keys[head].size(); ++i) {
        ASSERT_NEAR(heads.keys[head][i], fresh.keys[head][i], 2e-5) << "slot " << i / 32 << " of " << kept.size();
      }
    }
    evicted += heads.positions.back() - int32_t(heads.positions.size()) + 1 > 0;
  }
  EXPECT_GT(evicted, 8);
}

TEST(CompactedPositions, TheCacheIsThatOfATextOfTheKeptTokens) {
  const TinyModel model({.num_layers = 1, .num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 384});
  ExpectTheCacheOfATextOfTheKeptTokens(model.file, model.config);
}

// Keys turn by the scaled frequencies, and keep the attention factor that they were written with.
TEST(CompactedPositions, ScaledFrequenciesTurnKeysToo) {
  for (const RopeScaling::Type type : {RopeScaling::Type::kLlama3, RopeScaling::Type::kYarn}) {
    ModelConfig config;
    config.architecture = "qwen2", config.qkv_bias = true;
    config.hidden_size = 192, config.num_layers = 1, config.num_query_heads = 6, config.num_kv_heads = 3;
    config.head_dim = 32, config.ffn_size = 384, config.vocab_size = 256, config.max_context = 4096;
    config.rms_epsilon = 1e-6f, config.rope_theta = 10000;
    config.rope_scaling = {.type = type, .factor = 4, .original_context = 256};
    if (type == RopeScaling::Type::kYarn) config.rope_scaling.attention_factor = 1.2;
    const DummyWeights weights(config, DType::kF32, "config.json");
    const auto file = GgufFile::FromBytes("scaled", GgufCopyOf(weights, config));
    ASSERT_TRUE(file.ok()) << file.status().message();
    ExpectTheCacheOfATextOfTheKeptTokens(*file, ReadModelConfig(*file).value());
  }
}

TEST(CompactedPositions, PositionsOfTheTextAreWhatIsReported) {
  const TinyModel model({.num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 384});
  const std::vector<int32_t> prompt = RandomTokens(3, 90, 250);
  const auto run = [&](const char* policy) {
    Request request = Ask(prompt, 1, policy);
    return RunGroup(1, model.file, model.config, {.pool_slots = 512}, {}, {request}).completions.at(0);
  };
  const Completion compacted = run("streaming-llm-compacted"), absolute = run("streaming-llm");
  EXPECT_EQ(compacted.kv.kept_hash, absolute.kv.kept_hash);
  EXPECT_EQ(compacted.kv.kept_entries, absolute.kv.kept_entries);
  EXPECT_NE(compacted.logprobs, absolute.logprobs);
}

TEST(CompactedPositions, PinnedSlotsAndOtherScopesAreRefusedByName) {
  const EvictionSettings asked{.policy = "streaming-llm-compacted", .budget = 64};
  const auto pinned = ResolveEviction(asked, {.prompt_tokens = 90, .pinned_slots = 2});
  EXPECT_EQ(pinned.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(pinned.status().message(), HasSubstr("streaming-llm-compacted moves positions: the 2 pinned slots"));
  EvictionSettings by_head = asked;
  by_head.scope = EvictionScope::kHead;
  EXPECT_THAT(ResolveEviction(by_head, {.prompt_tokens = 90}).status().message(), HasSubstr("--kv-scope head"));
  EvictionSettings shared_out = asked;
  shared_out.allocation = BudgetAllocation::kLayer;
  EXPECT_THAT(ResolveEviction(shared_out, {.prompt_tokens = 90}).status().message(), HasSubstr("--kv-allocation"));
  // A budget that does not divide leaves no head one slot more than another.
  const KvShape shape{.num_layers = 2, .num_kv_heads = 3, .entry_bytes = 100};
  EvictionSettings bytes{.policy = "streaming-llm-compacted", .recent_tokens = 4};
  bytes.budget_bytes = 100 * (6 * 40 + 5);
  const auto even = ResolveEviction(bytes, {.prompt_tokens = 90, .shape = shape}).value();
  EXPECT_EQ(even.budget, 40);
  EXPECT_EQ(even.larger_heads, 0);
}

}  // namespace
}  // namespace winnow
