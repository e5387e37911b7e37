// SequenceCache::Compact on a real backend: the right bytes move, and whole pages come free.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv/sequence_cache.h"
#include "tests/kv/kv_test_support.h"
#include "tests/support/fake_backend.h"

namespace winnow {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Compaction : public testing::TestWithParam<KvLayout> {
 protected:
  const KvLayout& layout() const { return GetParam(); }

  // Behind the guard, so that kv is shown to touch no device memory itself.
  std::unique_ptr<Backend> backend_ = MakeGuardBackend(MakeReferenceBackend(ReferenceArithmetic::kQuantised));
};

INSTANTIATE_TEST_SUITE_P(KvTypes, Compaction,
                         testing::Values(KvLayout{.head_dim = 64, .dtype = DType::kBF16},
                                         KvLayout{.head_dim = 32, .dtype = DType::kF32}),
                         [](const auto& layout) { return std::string(Name(layout.param.dtype)); });

// In the field evicted entries lay scattered over pages, each with a survivor or two, and no page came free.
TEST_P(Compaction, EverySecondOf512SlotsLeaves16PagesAHead) {
  const auto pool = MakePool(*backend_, 2 * 2 * 32, layout());
  SequenceCache cache(*pool, 2, 2, 0);
  ReserveAndAppend(cache, 512);
  StampSlots(*pool, cache, 1);
  ASSERT_EQ(pool->num_used(), 4 * 32);
  std::vector<int32_t> odd;
  for (int32_t slot = 1; slot < 512; slot += 2) odd.push_back(slot);
  cache.Compact({.kept = {4, odd}});
  EXPECT_EQ(pool->num_used(), 4 * 16);
  EXPECT_EQ(pool->pages_freed(), 4 * 16);
  EXPECT_EQ(cache.head(1, 1).positions, odd);
  EXPECT_EQ(cache.entries_evicted(), 4 * 256);
  EXPECT_EQ(cache.tokens_seen(), 512);
  ExpectStamped(*pool, cache, 1);
}

TEST_P(Compaction, KeepsRaggedHeadsRightOverManyRandomEvictions) {
  constexpr int64_t kLayers = 3, kHeads = 3;
  const auto pool = MakePool(*backend_, 400, layout());
  pool->set_poison_on_release(true);
  SequenceCache cache(*pool, kLayers, kHeads, 6);
  std::vector<std::vector<int32_t>> expected(kLayers * kHeads);  // the naive model: positions by head
  int64_t evicted = 0;
  for (uint64_t round = 0; round < 25; ++round) {
    const int64_t num_tokens = 1 + int64_t(HashWords({round, 1}) % 60);
    const int64_t first = cache.tokens_seen();
    ReserveAndAppend(cache, num_tokens);
    StampSlots(*pool, cache, 3, first);
    KeepPlan plan;
    int64_t pages = 0;
    for (size_t index = 0; index < expected.size(); ++index) {
      std::vector<int32_t>& head = expected[index];
      for (int64_t i = 0; i < num_tokens; ++i) head.push_back(int32_t(first + i));
      // From nothing to everything kept.
      plan.kept.push_back(RandomSlots(int64_t(head.size()), HashWords({round, index}) % 101, round * 100 + index));
      std::vector<int32_t> kept;
      for (int32_t slot : plan.kept.back()) kept.push_back(head[size_t(slot)]);
      evicted += int64_t(head.size() - kept.size());
      pages += int64_t((kept.size() + 15) / 16);
      head = kept;
    }
    cache.Compact(plan);
    for (size_t index = 0; index < expected.size(); ++index) {
      ASSERT_EQ(cache.head(int64_t(index) / kHeads, int64_t(index) % kHeads).positions, expected[index]);
    }
    ASSERT_EQ(cache.num_pages(), pages);
    ASSERT_EQ(pool->num_used(), pages);
    ASSERT_EQ(cache.entries_evicted(), evicted);
    ASSERT_EQ(cache.evictions(), int64_t(round) + 1);
    ASSERT_NO_FATAL_FAILURE(ExpectStamped(*pool, cache, 3));
  }
}

// In the field "evicted" entries were masked, or copies of them lived on, and no other request ever got their memory.
TEST_P(Compaction, FreedPagesServeAnotherSequenceWhileTheFirstLives) {
  const auto pool = MakePool(*backend_, 64, layout());
  SequenceCache first(*pool, 1, 2, 0), second(*pool, 1, 2, 0);
  ReserveAndAppend(first, 480);  // 60 pages
  StampSlots(*pool, first, 1);
  EXPECT_FALSE(second.Reserve(400).ok());  // 50 pages
  std::vector<std::vector<int32_t>> kept = {RandomSlots(480, 10, 1), RandomSlots(480, 10, 2)};
  for (auto& list : kept) list.resize(std::min<size_t>(list.size(), 64));
  first.Compact({.kept = kept});
  ASSERT_LE(first.num_pages(), 8);
  ReserveAndAppend(second, 400);
  StampSlots(*pool, second, 2);
  ReserveAndAppend(first, 16);
  StampSlots(*pool, first, 1, 480);
  ExpectStamped(*pool, first, 1);
  ExpectStamped(*pool, second, 2);
}

TEST_P(Compaction, PoisonsFreedPagesAfterTheirSlotsMovedAway) {
  const auto pool = MakePool(*backend_, 8, layout());
  pool->set_poison_on_release(true);
  SequenceCache cache(*pool, 1, 1, 0);
  ReserveAndAppend(cache, 48);
  StampSlots(*pool, cache, 1);
  const std::vector<int32_t> pages = cache.head(0, 0).pages;
  cache.Compact({.kept = {{40, 41, 47}}});
  ExpectStamped(*pool, cache, 1);
  PoolImage image(*pool);
  const std::vector<std::byte> poison(image.Slot(0).size(), std::byte(0xff));
  for (int64_t slot = 0; slot < kPageSlots; ++slot) {
    EXPECT_EQ(image.Slot(pages[1] * kPageSlots + slot), poison);
    EXPECT_EQ(image.Slot(pages[2] * kPageSlots + slot), poison);
  }
}

TEST(CompactionCalls, AreOneUploadAndOneOpForAllHeads) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 100, {.head_dim = 16, .dtype = DType::kBF16});
  SequenceCache cache(*pool, 3, 3, 0);
  ReserveAndAppend(cache, 30);
  const int64_t allocations = backend.num_allocations;
  cache.Compact({.kept = {9, {1, 3, 5}}});
  EXPECT_EQ(backend.num_uploads, 1);
  EXPECT_EQ(backend.num_compactions, 1);
  EXPECT_EQ(backend.num_allocations, allocations);
}

TEST(CompactionCalls, AreNoneIfNothingMovesYetTheEvictionCounts) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 100, {.head_dim = 16, .dtype = DType::kBF16});
  SequenceCache cache(*pool, 1, 2, 0);
  ReserveAndAppend(cache, 3);
  cache.Compact({.kept = {2, {0, 1, 2}}});
  EXPECT_EQ(cache.entries(), 6);
  EXPECT_EQ(cache.evictions(), 1);
  EXPECT_EQ(cache.entries_evicted(), 0);
  cache.Compact({.kept = {{0, 1}, {}}});  // a tail and a whole head go: nothing to move
  EXPECT_THAT(cache.head(0, 0).positions, ElementsAre(0, 1));
  EXPECT_THAT(cache.head(0, 1).positions, IsEmpty());
  EXPECT_EQ(pool->num_used(), 1);
  EXPECT_EQ(backend.num_compactions, 0);
}

TEST(CompactionDeathTest, EndsTheProgramOnPlansThatAreNone) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 100, {.head_dim = 16, .dtype = DType::kBF16});
  SequenceCache cache(*pool, 1, 1, 0);
  ReserveAndAppend(cache, 5);
  EXPECT_DEATH(cache.Compact({}), "check failed");
  EXPECT_DEATH(cache.Compact({.kept = {{0}, {0}}}), "check failed");
  EXPECT_DEATH(cache.Compact({.kept = {{0, 5}}}), "check failed");
  EXPECT_DEATH(cache.Compact({.kept = {{1, 1}}}), "check failed");
  EXPECT_DEATH(cache.Compact({.kept = {{2, 1}}}), "check failed");
  EXPECT_DEATH(cache.Compact({.kept = {{-1, 1}}}), "check failed");
}

}  // namespace
}  // namespace winnow
