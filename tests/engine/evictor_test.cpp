#include "engine/evictor.h"

#include <gtest/gtest.h>

#include <mutex>
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
    const auto policy = MakePolicy(request.eviction.policy).value();
    const auto communicator = MakeLocalCommunicator();
    const DueEviction due{policy.get(), &request, &cache, kHeads};
    EvictToBudget(*communicator, {&due, 1});
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

TEST_F(Evictor, WiderScopesKeepOneSetForAllTheirHeads) {
  for (EvictionScope scope : {EvictionScope::kLayer, EvictionScope::kSequence}) {
    SequenceCache cache = Cache(kHeads, 0);
    Request request = Ask("random");
    request.eviction.scope = scope;
    Append(cache, 50);
    Evict(request, cache);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (int64_t head = 1; head < kHeads; ++head) {
        EXPECT_EQ(cache.head(layer, head).positions, cache.head(layer, 0).positions);
      }
    }
    EXPECT_EQ(cache.head(0, 0).positions == cache.head(1, 0).positions, scope == EvictionScope::kSequence);
  }
}

// Each rank holds one head of three, and the heads have seen different attention: the shared set follows the sum.
TEST(EvictorScopes, SharedSetsAreTheSumsOverTheHeadsOfAllRanks) {
  const auto kept_on = [](int num_ranks) {
    std::vector<int32_t> kept;
    std::mutex mutex;  // guards kept
    RunThreadRanks(num_ranks, [&](Communicator& communicator) {
      const auto backend = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
      const auto pool = PagePool::Make(*backend, {.head_dim = 32}, 64, /*with_mass=*/true).value();
      const int64_t heads = num_ranks == 1 ? 3 : 1;
      SequenceCache cache(*pool, kLayers, heads, num_ranks == 1 ? 0 : communicator.rank());
      ASSERT_TRUE(cache.Reserve(50).ok());
      cache.Append(50);
      // A slot's mass: large where (slot + 7 * head) % 10 < head + 2, so that no head alone names the shared set.
      std::vector<int64_t> mass(size_t(pool->num_pages() * kPageSlots), 0);
      for (int64_t layer = 0; layer < kLayers; ++layer) {
        for (int64_t head = 0; head < heads; ++head) {
          const int64_t global = cache.first_kv_head() + head;
          for (int64_t slot = 0; slot < 50; ++slot) {
            mass[size_t(cache.head(layer, head).PhysicalSlot(slot))] =
                (slot + 7 * global) % 10 < global + 2 ? 1000 : slot;
          }
        }
      }
      backend->CopyToDevice(pool->mass(), std::as_bytes(std::span(mass)));
      Request request;
      request.prompt.assign(10, 1);
      request.eviction = {.policy = "h2o",
                          .budget = 20,
                          .interval = 30,
                          .sink_tokens = 2,
                          .recent_tokens = 10,
                          .scope = EvictionScope::kSequence};
      const auto policy = MakePolicy("h2o").value();
      const DueEviction due{policy.get(), &request, &cache, kHeads};
      EvictToBudget(communicator, {&due, 1});
      const std::lock_guard lock(mutex);
      const auto& positions = cache.head(kLayers - 1, 0).positions;
      EXPECT_TRUE(kept.empty() || kept == positions);
      kept = positions;
    });
    return kept;
  };
  const std::vector<int32_t> one = kept_on(1);
  EXPECT_EQ(one.size(), 20u);
  EXPECT_EQ(kept_on(3), one);
}

// snapkv starts a window anew after each eviction, h2o goes on adding.
TEST(EvictorObservation, WindowMassBeginsAnewAndCumulativeMassGoesOn) {
  for (const char* name : {"snapkv", "h2o"}) {
    const auto backend = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
    const auto pool = PagePool::Make(*backend, {.head_dim = 32}, 64, /*with_mass=*/true).value();
    SequenceCache cache(*pool, kLayers, kHeads, 0);
    ASSERT_TRUE(cache.Reserve(50).ok());
    cache.Append(50);
    const std::vector<int64_t> mass(size_t(pool->num_pages() * kPageSlots), 7);
    backend->CopyToDevice(pool->mass(), std::as_bytes(std::span(mass)));
    Request request;
    request.prompt.assign(10, 1);
    request.eviction = {.policy = name, .budget = 20, .interval = 30, .sink_tokens = 2, .recent_tokens = 8};
    const auto policy = MakePolicy(name).value();
    const auto communicator = MakeLocalCommunicator();
    const DueEviction due{policy.get(), &request, &cache, kHeads};
    EvictToBudget(*communicator, {&due, 1});
    const int64_t expected = policy->observations().mass == ObservedMass::kWindow ? 0 : 7;
    for (const auto& head : cache.ReadMass()) EXPECT_EQ(head, std::vector<int64_t>(20, expected)) << name;
  }
}

}  // namespace
}  // namespace winnow
