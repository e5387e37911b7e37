#include "engine/evictor.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/fake_backend.h"

namespace winnow {
namespace {

constexpr int64_t kLayers = 2, kHeads = 3;

class Evictor : public testing::Test {
 protected:
  static Request Ask(const std::string& policy) {
    Request request;
    request.prompt.assign(10, 1);
    request.sampling.seed = 21;
    request.eviction = {.policy = policy, .budget = 40, .interval = 10, .sink_tokens = 4, .recent_tokens = 8};
    return request;
  }
  SequenceCache Cache(int64_t heads, int64_t first_head) { return SequenceCache(*pool_, kLayers, heads, first_head); }
  static void Append(SequenceCache& cache, int64_t num_tokens) {
    ASSERT_TRUE(cache.Reserve(num_tokens).ok());
    cache.Append(num_tokens);
  }
  static void Evict(const Request& request, SequenceCache& cache) {
    EvictToBudget(*MakePolicy(request.eviction.policy).value(), request, cache);
  }

  FakeBackend backend_;
  std::unique_ptr<PagePool> pool_ = PagePool::Make(backend_, {.head_dim = 16}, 200).value();
};

TEST_F(Evictor, EveryHeadKeepsTheBudgetWithSinksAndRecentTokensEachTime) {
  for (const char* policy : {"streaming-llm", "random"}) {
    SequenceCache cache = Cache(kHeads, 0);
    const Request request = Ask(policy);
    Append(cache, 40);
    for (int64_t eviction = 1; eviction <= 20; ++eviction) {
      Append(cache, 10);
      Evict(request, cache);
      ASSERT_EQ(cache.evictions(), eviction);
      const int32_t seen = int32_t(cache.tokens_seen());
      ASSERT_EQ(seen, 40 + 10 * eviction);
      for (int64_t layer = 0; layer < kLayers; ++layer) {
        for (int64_t head = 0; head < kHeads; ++head) {
          const auto& positions = cache.head(layer, head).positions;
          ASSERT_EQ(int64_t(positions.size()), 40) << policy;
          const std::set<int32_t> kept(positions.begin(), positions.end());
          for (int32_t p : {0, 1, 2, 3}) EXPECT_TRUE(kept.contains(p)) << policy << " lost sink " << p;
          for (int32_t p = seen - 8; p < seen; ++p) EXPECT_TRUE(kept.contains(p)) << policy << " lost recent " << p;
        }
      }
    }
    EXPECT_EQ(cache.entries_evicted(), kLayers * kHeads * 10 * 20);
  }
}

TEST_F(Evictor, PagesOfEvictedSlotsGoBackToThePool) {
  {
    SequenceCache cache = Cache(kHeads, 0);
    Append(cache, 50);
    EXPECT_EQ(pool_->num_used(), kLayers * kHeads * 4);  // 50 slots: 4 pages of 16
    Evict(Ask("random"), cache);
    EXPECT_EQ(pool_->num_used(), kLayers * kHeads * 3);
  }
  EXPECT_EQ(pool_->num_used(), 0);
}

TEST_F(Evictor, StreamingLlmKeepsSinksAndTheNewest) {
  SequenceCache cache = Cache(kHeads, 0);
  Append(cache, 50);
  Evict(Ask("streaming-llm"), cache);
  std::vector<int32_t> expected = {0, 1, 2, 3};
  for (int32_t p = 14; p < 50; ++p) expected.push_back(p);
  EXPECT_EQ(cache.head(1, 2).positions, expected);
}

TEST_F(Evictor, RandomDrawsForEveryLayerHeadAndEvictionAnew) {
  SequenceCache cache = Cache(kHeads, 0);
  Append(cache, 50);
  Evict(Ask("random"), cache);
  std::set<std::vector<int32_t>> kept;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    for (int64_t head = 0; head < kHeads; ++head) kept.insert(cache.head(layer, head).positions);
  }
  EXPECT_EQ(kept.size(), size_t(kLayers * kHeads));
}

TEST_F(Evictor, AHeadIsTreatedAlikeOnWhateverRankItStands) {
  const Request request = Ask("random");
  SequenceCache whole = Cache(kHeads, 0), part = Cache(kHeads - 1, 1);
  for (SequenceCache* cache : {&part, &whole}) {
    Append(*cache, 50);
    Evict(request, *cache);
    Append(*cache, 10);
    Evict(request, *cache);
  }
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    for (int64_t head = 1; head < kHeads; ++head) {
      EXPECT_EQ(whole.head(layer, head).positions, part.head(layer, head - 1).positions);
    }
  }
}

TEST_F(Evictor, SeedAndChoiceChangeWhatRandomKeeps) {
  std::set<std::vector<int32_t>> kept;
  for (int64_t i = 0; i < 3; ++i) {
    Request request = Ask("random");
    if (i == 1) request.sampling.seed = 22;
    if (i == 2) request.choice_index = 1;
    SequenceCache cache = Cache(1, 0);
    Append(cache, 50);
    Evict(request, cache);
    kept.insert(cache.head(0, 0).positions);
  }
  EXPECT_EQ(kept.size(), 3u);
}

}  // namespace
}  // namespace winnow
