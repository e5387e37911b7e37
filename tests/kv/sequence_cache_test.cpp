#include "kv/sequence_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kv/kv_test_support.h"
#include "tests/support/fake_backend.h"

namespace winnow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr KvLayout kLayout{.head_dim = 16, .dtype = DType::kBF16};

// Keeps the last `count` slots of every head.
KeepPlan NewestSlots(const SequenceCache& cache, int64_t count) {
  KeepPlan plan;
  for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
    for (int64_t h = 0; h < cache.num_kv_heads(); ++h) {
      const int64_t length = cache.head(layer, h).length();
      plan.kept.emplace_back();
      for (int64_t slot = std::max<int64_t>(0, length - count); slot < length; ++slot) {
        plan.kept.back().push_back(int32_t(slot));
      }
    }
  }
  return plan;
}

TEST(SequenceCache, ReservesOnePagePer16TokensAndHead) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 100, kLayout);
  SequenceCache cache(*pool, 2, 3, 0);
  EXPECT_EQ(cache.PagesNeeded(16), 6);
  EXPECT_EQ(cache.PagesNeeded(17), 12);
  ReserveAndAppend(cache, 17);
  EXPECT_EQ(cache.num_pages(), 12);
  EXPECT_EQ(pool->num_used(), 12);
  EXPECT_EQ(cache.PagesNeeded(15), 0);
  EXPECT_EQ(cache.PagesNeeded(16), 6);
  EXPECT_EQ(cache.entries(), 17 * 6);
  EXPECT_EQ(cache.max_length(), 17);
}

TEST(SequenceCache, ReservesAllOrNothingAndSaysHowManyPagesWereMissing) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 8, kLayout);
  SequenceCache cache(*pool, 2, 1, 0);
  ReserveAndAppend(cache, 33);
  const Status status = cache.Reserve(40);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("40 more tokens: needed 4, free 2 of 8"));
  EXPECT_EQ(pool->num_free(), 2);
  EXPECT_TRUE(cache.Reserve(31).ok());
  EXPECT_EQ(pool->num_free(), 0);
}

TEST(SequenceCache, ReservingTwiceTakesThePagesOnce) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 8, kLayout);
  SequenceCache cache(*pool, 1, 1, 0);
  EXPECT_TRUE(cache.Reserve(20).ok());
  EXPECT_TRUE(cache.Reserve(20).ok());
  EXPECT_EQ(pool->num_used(), 2);
}

TEST(SequenceCache, MapsSlotsToPages) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 8, kLayout);
  SequenceCache cache(*pool, 1, 2, 0);
  ReserveAndAppend(cache, 16);
  ReserveAndAppend(cache, 2);  // the first head's second page is page 2
  EXPECT_THAT(cache.head(0, 0).pages, ElementsAre(0, 2));
  EXPECT_THAT(cache.head(0, 1).pages, ElementsAre(1, 3));
  EXPECT_EQ(cache.head(0, 0).PhysicalSlot(15), 15);
  EXPECT_EQ(cache.head(0, 0).PhysicalSlot(17), 33);
}

TEST(SequenceCache, KeepsTokensSeenApartFromSlotsHeldOver300TokensAtBudget64) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 2 * 3 * 5, kLayout);  // a full cache would need 19 pages a head
  SequenceCache cache(*pool, 2, 3, 0);
  for (int64_t token = 0; token < 300; ++token) {
    ReserveAndAppend(cache, 1);
    StampSlots(*pool, cache, 7, token);
    if (cache.max_length() > 64) cache.Compact(NewestSlots(cache, 64));
    ASSERT_EQ(cache.tokens_seen(), token + 1);
    for (int64_t layer = 0; layer < 2; ++layer) {
      for (int64_t h = 0; h < 3; ++h) {
        ASSERT_EQ(cache.head(layer, h).length(), std::min<int64_t>(token + 1, 64));
        ASSERT_EQ(cache.head(layer, h).positions.back(), token);
      }
    }
  }
  ExpectStamped(*pool, cache, 7);
  EXPECT_EQ(cache.evictions(), 300 - 64);
  EXPECT_EQ(cache.entries_evicted(), (300 - 64) * 6);
  EXPECT_EQ(cache.entries(), 64 * 6);
  EXPECT_EQ(pool->num_used(), 4 * 6);
}

TEST(SequenceCache, ReturnsEveryPageOnReleaseAndStartsAnew) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 20, kLayout);
  SequenceCache cache(*pool, 2, 2, 0);
  ReserveAndAppend(cache, 50);
  cache.Compact(NewestSlots(cache, 20));
  cache.Release();
  EXPECT_EQ(pool->num_free(), 20);
  EXPECT_EQ(cache.tokens_seen(), 0);
  EXPECT_EQ(cache.entries(), 0);
  EXPECT_EQ(cache.evictions(), 0);
  ReserveAndAppend(cache, 3);
  EXPECT_THAT(cache.head(1, 1).positions, ElementsAre(0, 1, 2));
}

TEST(SequenceCache, ReturnsEveryPageWhenItGoesAndOnlyOnceAfterAMove) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 20, kLayout);
  {
    SequenceCache cache(*pool, 2, 2, 0);
    ReserveAndAppend(cache, 40);
    SequenceCache moved(std::move(cache));
    EXPECT_EQ(moved.entries(), 160);
    EXPECT_EQ(moved.tokens_seen(), 40);
    EXPECT_EQ(pool->num_used(), 12);
  }
  EXPECT_EQ(pool->num_free(), 20);
  EXPECT_EQ(pool->pages_freed(), 12);
}

TEST(SequenceCache, RollsBackTokensAndThePagesThatTheyAloneHeld) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 20, kLayout);
  SequenceCache cache(*pool, 2, 2, 0);
  ReserveAndAppend(cache, 20);
  StampSlots(*pool, cache, 1);
  const std::vector<int32_t> pages = cache.head(1, 0).pages;
  ReserveAndAppend(cache, 30);
  EXPECT_EQ(cache.num_pages(), 16);
  cache.Rollback(30);
  EXPECT_EQ(cache.tokens_seen(), 20);
  EXPECT_EQ(cache.num_pages(), 8);
  EXPECT_EQ(pool->num_free(), 12);
  EXPECT_EQ(cache.head(1, 0).pages, pages);
  EXPECT_EQ(cache.head(1, 0).length(), 20);
  ExpectStamped(*pool, cache, 1);
}

TEST(SequenceCache, RollbackLeavesThePoolAsBefore) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 40, kLayout);
  SequenceCache cache(*pool, 2, 2, 0), other(*pool, 1, 1, 0);
  ReserveAndAppend(cache, 40);
  ReserveAndAppend(other, 40);
  cache.Compact(NewestSlots(cache, 10));  // so that free pages are in no simple order
  ReserveAndAppend(cache, 60);
  const std::vector<int32_t> first = cache.head(1, 1).pages;
  cache.Rollback(60);
  ReserveAndAppend(cache, 60);
  EXPECT_EQ(cache.head(1, 1).pages, first);
}

TEST(SequenceCache, RollbackOfNothingReturnsUnusedReservations) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 20, kLayout);
  SequenceCache cache(*pool, 1, 2, 0);
  ReserveAndAppend(cache, 5);
  ASSERT_TRUE(cache.Reserve(60).ok());
  cache.Rollback(0);
  EXPECT_EQ(pool->num_used(), 2);
}

TEST(SequenceCache, RollsBackAfterAnEvictionOfOlderTokens) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 20, kLayout);
  SequenceCache cache(*pool, 1, 1, 0);
  ReserveAndAppend(cache, 40);
  cache.Compact({.kept = {{0, 1, 38, 39}}});
  ReserveAndAppend(cache, 2);
  cache.Rollback(2);
  EXPECT_THAT(cache.head(0, 0).positions, ElementsAre(0, 1, 38, 39));
  EXPECT_EQ(cache.tokens_seen(), 40);
}

TEST(SequenceCache, HashesShardsOfHeadsToTheSameSum) {
  FakeBackend backend;
  constexpr int64_t kLayers = 2, kHeads = 3;
  // Splits the heads at the given first heads, evicts by global head, and adds the shards' hashes.
  const auto hash_of = [&](std::vector<int64_t> first_heads, uint64_t seed) {
    uint64_t sum = 0;
    first_heads.push_back(kHeads);
    for (size_t rank = 0; rank + 1 < first_heads.size(); ++rank) {
      const auto pool = MakePool(backend, 100, kLayout);
      const int64_t begin = first_heads[rank], end = first_heads[rank + 1];
      SequenceCache cache(*pool, kLayers, end - begin, begin);
      ReserveAndAppend(cache, 100);
      KeepPlan plan;
      for (int64_t layer = 0; layer < kLayers; ++layer) {
        for (int64_t head = begin; head < end; ++head) {
          plan.kept.push_back(RandomSlots(100, 50, HashWords({seed, uint64_t(layer), uint64_t(head)})));
        }
      }
      cache.Compact(plan);
      sum += cache.KeptHash();
    }
    return sum;
  };
  const uint64_t whole = hash_of({0}, 1);
  EXPECT_EQ(hash_of({0, 2}, 1), whole);
  EXPECT_EQ(hash_of({0, 1}, 1), whole);
  EXPECT_EQ(hash_of({0, 1, 2}, 1), whole);
  EXPECT_NE(hash_of({0}, 2), whole);
}

TEST(SequenceCache, HashTellsLayersHeadsAndPositionsApart) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 100, kLayout);
  const auto hash_of = [&](std::vector<std::vector<int32_t>> kept) {
    SequenceCache cache(*pool, 2, 2, 0);
    ReserveAndAppend(cache, 3);
    cache.Compact({.kept = std::move(kept)});
    return cache.KeptHash();
  };
  EXPECT_EQ(hash_of({{}, {}, {}, {}}), 0u);
  EXPECT_NE(hash_of({{1}, {}, {}, {}}), hash_of({{2}, {}, {}, {}}));
  EXPECT_NE(hash_of({{1}, {}, {}, {}}), hash_of({{}, {1}, {}, {}}));
  EXPECT_NE(hash_of({{}, {1}, {}, {}}), hash_of({{}, {}, {1}, {}}));
}

// Keys (or values) of a pinned block: a number by layer, global head, slot and dimension, exact in bf16.
std::vector<float> PinnedFloats(const SequenceCache& cache, int64_t num_slots, float first) {
  std::vector<float> floats;
  for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
    for (int64_t h = 0; h < cache.num_kv_heads(); ++h) {
      for (int64_t slot = 0; slot < num_slots; ++slot) {
        const int64_t number = (layer * 4 + cache.first_kv_head() + h) * 8 + slot;  // 4 heads, 8 slots at most
        for (int64_t dim = 0; dim < cache.head_dim(); ++dim) floats.push_back(first * float(number + dim));
      }
    }
  }
  return floats;
}

class PinnedSlots : public testing::Test {
 protected:
  void Pin(SequenceCache& cache, int64_t num_slots) {
    ASSERT_TRUE(cache.Reserve(num_slots).ok());
    cache.AppendPinned(num_slots, PinnedFloats(cache, num_slots, 1), PinnedFloats(cache, num_slots, -1));
  }
  // The keys that the slots at the end of every head hold.
  void ExpectPinnedKeys(const SequenceCache& cache, int64_t first_slot, int64_t num_slots) {
    const std::vector<float> expected = PinnedFloats(cache, num_slots, 1);
    const size_t block = size_t(num_slots * cache.head_dim());
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
      for (int64_t h = 0; h < cache.num_kv_heads(); ++h) {
        const std::vector<float> keys = cache.ReadKeys(layer, h);
        const auto at = keys.begin() + first_slot * cache.head_dim();
        const auto want = expected.begin() + int64_t(block) * (layer * cache.num_kv_heads() + h);
        EXPECT_TRUE(std::equal(want, want + int64_t(block), at)) << layer << " " << h;
      }
    }
  }

  std::unique_ptr<Backend> backend_ = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  std::unique_ptr<PagePool> pool_ = PagePool::Make(*backend_, kLayout, 60, /*with_mass=*/true).value();
};

TEST_F(PinnedSlots, OwnPositionsButAreNoTokens) {
  SequenceCache cache(*pool_, 2, 2, 1);
  ReserveAndAppend(cache, 5);
  Pin(cache, 8);
  EXPECT_EQ(cache.tokens_seen(), 5);
  EXPECT_EQ(cache.next_position(), 13);
  EXPECT_THAT(cache.pinned_positions(), ElementsAre(5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_EQ(cache.entries(), 13 * 4);
  EXPECT_EQ(cache.pinned_entries(), 8 * 4);
  ReserveAndAppend(cache, 2);
  EXPECT_EQ(cache.tokens_seen(), 7);
  EXPECT_THAT(std::vector(cache.head(1, 1).positions.end() - 3, cache.head(1, 1).positions.end()),
              ElementsAre(12, 13, 14));
  ExpectPinnedKeys(cache, 5, 8);
}

TEST_F(PinnedSlots, MoveInACompactionWithTheirKeys) {
  SequenceCache cache(*pool_, 2, 2, 0);
  ReserveAndAppend(cache, 20);
  Pin(cache, 4);
  ReserveAndAppend(cache, 4);
  const std::vector<int32_t> kept = {0, 3, 20, 21, 22, 23, 27};
  cache.Compact({.kept = std::vector<std::vector<int32_t>>(4, kept)});
  EXPECT_EQ(cache.head(0, 1).positions, kept);
  ExpectPinnedKeys(cache, 2, 4);
  EXPECT_EQ(cache.pinned_entries(), 4 * 4);
  EXPECT_EQ(cache.next_position(), 28);
}

TEST_F(PinnedSlots, StartWithoutMass) {
  {
    SequenceCache other(*pool_, 1, 1, 0);  // leaves mass behind in the pages that are used next
    ReserveAndAppend(other, 16);
    const std::vector<int64_t> mass(size_t(pool_->num_pages() * kPageSlots), 9);
    backend_->CopyToDevice(pool_->mass(), std::as_bytes(std::span(mass)));
  }
  SequenceCache cache(*pool_, 1, 1, 0);
  Pin(cache, 8);
  EXPECT_EQ(cache.ReadMass()[0], std::vector<int64_t>(8, 0));
}

TEST_F(PinnedSlots, ARollbackTakesTextBehindThemAndStopsAtThem) {
  SequenceCache cache(*pool_, 2, 2, 0);
  ReserveAndAppend(cache, 10);
  Pin(cache, 8);
  const std::vector<int32_t> pages = cache.head(1, 1).pages;
  ReserveAndAppend(cache, 20);
  cache.Rollback(20);
  EXPECT_EQ(cache.tokens_seen(), 10);
  EXPECT_EQ(cache.next_position(), 18);
  EXPECT_EQ(cache.head(1, 1).length(), 18);
  EXPECT_EQ(cache.head(1, 1).pages, pages);
  ExpectPinnedKeys(cache, 10, 8);
  ReserveAndAppend(cache, 3);
  EXPECT_DEATH(cache.Rollback(4), "check failed");  // the fourth token from the end stands before the block
}

TEST_F(PinnedSlots, AreForgottenByARelease) {
  SequenceCache cache(*pool_, 2, 2, 0);
  ReserveAndAppend(cache, 3);
  Pin(cache, 8);
  SequenceCache moved(std::move(cache));
  EXPECT_EQ(moved.next_position(), 11);
  EXPECT_EQ(moved.pinned_entries(), 32);
  moved.Release();
  EXPECT_EQ(moved.next_position(), 0);
  EXPECT_TRUE(moved.pinned_positions().empty());
  EXPECT_EQ(pool_->num_used(), 0);
}

TEST(SequenceCacheDeathTest, EndsTheProgramOnMisuse) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 8, kLayout);
  SequenceCache cache(*pool, 1, 1, 0);
  EXPECT_DEATH(cache.Append(1), "check failed");  // nothing reserved
  ReserveAndAppend(cache, 20);
  EXPECT_DEATH(cache.Rollback(21), "check failed");
  cache.Compact({.kept = {{0, 1, 2}}});
  EXPECT_DEATH(cache.Rollback(1), "check failed");  // the last token is evicted
}

}  // namespace
}  // namespace winnow
