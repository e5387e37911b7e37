// What a recording says of a text, against the cumulative mass of a cache that loses nothing, and what is made of it.
#include "engine/future_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "engine/rank_engine.h"
#include "tests/e2e/requests.h"
#include "tests/engine/group_engine.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr QueryBlocks kBlocks{.begin = 20, .interval = 8};
constexpr int64_t kTokens = 41;  // blocks of 8, 8 and 5

// [block][layer * KV heads + head][slot], on all ranks together.
using Means = std::vector<std::vector<std::vector<float>>>;

Means Record(const TinyModel& model, const std::vector<int32_t>& tokens, int num_ranks, int threads = 1) {
  Means all;
  std::mutex mutex;  // guards all
  const size_t heads = size_t(model.config.num_kv_heads), layers = size_t(model.config.num_layers);
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    const EngineOptions options{.num_threads = threads, .pool_slots = 48};
    const auto engine = RankEngine::Make(model.file, model.config, options, communicator, nullptr).value();
    int64_t last = 0;
    const auto progress = [&](int64_t done) { last = done; };
    auto made = RecordBlockAttention(engine->transformer(), engine->pool(), engine->runner().replicas(), tokens,
                                     kBlocks, progress);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ(last, int64_t(tokens.size()));
    EXPECT_EQ(engine->pool().num_used(), 0);
    EXPECT_EQ(made->tokens, tokens);
    const std::lock_guard lock(mutex);
    all.resize(made->mean.size(), std::vector<std::vector<float>>(layers * heads));
    const Range own = engine->transformer().kv_heads();
    for (size_t block = 0; block < all.size(); ++block) {
      for (size_t layer = 0; layer < layers; ++layer) {
        for (int64_t head = own.begin; head < own.end; ++head) {
          all[block][layer * heads + size_t(head)] =
              made->mean[block][layer * size_t(own.size()) + size_t(head - own.begin)];
        }
      }
    }
  });
  return all;
}

// h2o with a budget that it never fills counts the attention of every query: differences of its counters.
TEST(BlockAttention, IsWhatTheCountersOfAFullCacheGrowBy) {
  const TinyModel model({.num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 384});
  const std::vector<int32_t> tokens = RandomTokens(5, kTokens, 250);
  Request request = Greedy(0, tokens, 1);
  request.eviction = ResolveEviction({.policy = "h2o", .budget = 100}, {}).value();
  std::map<int64_t, std::vector<std::vector<int64_t>>> counters;  // by tokens seen
  RunGroup(1, model.file, model.config, {.pool_slots = 48}, {.max_num_batched_tokens = 1}, {request},
           [&](int, const StepItem&, const SequenceCache& cache, PagePool&) {
             counters[cache.tokens_seen()] = cache.ReadMass();
           });
  const Means means = Record(model, tokens, 1);
  ASSERT_EQ(means.size(), 3u);
  for (size_t block = 0; block < means.size(); ++block) {
    const int64_t begin = 20 + 8 * int64_t(block), end = std::min<int64_t>(begin + 8, kTokens);
    for (size_t head = 0; head < 6; ++head) {
      ASSERT_EQ(int64_t(means[block][head].size()), end);
      for (size_t slot = 0; slot < size_t(end); ++slot) {
        const int64_t before = int64_t(slot) < begin ? counters[begin][head][slot] : 0;
        const double steps = double(counters[end][head][slot] - before);
        ASSERT_EQ(means[block][head][slot], float(steps / 0x1p30 / (8 * 2))) << "the last block too is divided by 8";
      }
    }
  }
}

TEST(BlockAttention, RanksAndThreadsChangeNoBit) {
  const TinyModel model({.num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 384});
  const std::vector<int32_t> tokens = RandomTokens(5, kTokens, 250);
  const Means one = Record(model, tokens, 1);
  EXPECT_EQ(Record(model, tokens, 2, 2), one);
  EXPECT_EQ(Record(model, tokens, 3), one);
  EXPECT_EQ(Record(model, tokens, 5), one) << "replicas of KV heads";
}

TEST(BlockAttention, ATextThatEndsBeforeTheFirstEvictionHasNoBlocks) {
  const TinyModel model{{}};
  EXPECT_TRUE(Record(model, RandomTokens(5, 20, 250), 1).empty());
}

// One model whose scores are infinite, and a pool that is a page short.
TEST(BlockAttention, ATextThatIsNotFiniteOrDoesNotFitIsAnError) {
  const std::vector<int32_t> tokens = RandomTokens(5, kTokens, 250);
  const auto record = [&](float key_gain, int64_t pool_slots) {
    const TinyModel model({.weights = DType::kF32, .embeddings = DType::kF32, .key_gain = key_gain});
    const auto communicator = MakeLocalCommunicator();
    const auto engine =
        RankEngine::Make(model.file, model.config, {.pool_slots = pool_slots}, *communicator, nullptr).value();
    const Status status = engine->runner().Record(1, tokens, kBlocks, nullptr);
    EXPECT_EQ(engine->pool().num_used(), 0);
    return status;
  };
  const Status not_finite = record(1e38f, 48);
  EXPECT_EQ(not_finite.code(), StatusCode::kNumerical);
  EXPECT_THAT(not_finite.message(), HasSubstr("full: the hidden state at position"));
  EXPECT_EQ(record(1, 32).code(), StatusCode::kOutOfMemory);
}

// Two heads, tokens 0 .. 6, blocks of 2 queries from 3 on.
TEST(FutureAttention, IsTheMostOfTheBlocksThatFollow) {
  const BlockAttention attention{
      .blocks = {.begin = 3, .interval = 2},
      .tokens = {1, 2, 3, 4, 5, 6},
      .mean = {{{0.1f, 0.5f, 0.2f, 0.1f, 0.1f}, {0.3f, 0.0f, 0.1f, 0.4f, 0.2f}},
               {{0.2f, 0.1f, 0.3f, 0.0f, 0.2f, 0.2f}, {0.1f, 0.1f, 0.0f, 0.1f, 0.3f, 0.0f}}}};
  const FutureAttention future(attention);
  const std::vector<int32_t> all = {0, 1, 2}, held = {0, 2, 4};
  EXPECT_THAT(future.MostAfter(3, 0, all), ElementsAre(0.2f, 0.5f, 0.3f));
  EXPECT_THAT(future.MostAfter(3, 1, all), ElementsAre(0.3f, 0.1f, 0.1f));
  EXPECT_THAT(future.MostAfter(5, 0, held), ElementsAre(0.2f, 0.3f, 0.2f));
  EXPECT_THAT(future.MostAfter(5, 1, held), ElementsAre(0.1f, 0.0f, 0.3f));
  EXPECT_THAT(future.MostAfter(6, 0, held), ElementsAre(0.0f, 0.0f, 0.0f)) << "the text is over";
}

}  // namespace
}  // namespace winnow
