#include "kv/page_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kv/kv_test_support.h"
#include "tests/support/fake_backend.h"

namespace winnow {
namespace {

using testing::HasSubstr;

constexpr KvLayout kLayout{.head_dim = 32, .dtype = DType::kBF16};

TEST(PagePool, HandsOutPagesInAscendingOrderAndThenTheOneGivenBackLast) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 4, kLayout);
  EXPECT_EQ(pool->Take(), 0);
  EXPECT_EQ(pool->Take(), 1);
  EXPECT_EQ(pool->Take(), 2);
  pool->Give(0);
  pool->Give(2);
  EXPECT_EQ(pool->Take(), 2);
  EXPECT_EQ(pool->Take(), 0);
  EXPECT_EQ(pool->Take(), 3);
}

TEST(PagePool, CountsUsedFreePeakAndFreedPages) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 5, kLayout);
  const int32_t first = pool->Take();
  pool->Take();
  pool->Give(first);
  EXPECT_EQ(pool->num_pages(), 5);
  EXPECT_EQ(pool->num_free(), 4);
  EXPECT_EQ(pool->num_used(), 1);
  EXPECT_EQ(pool->peak_used(), 2);
  EXPECT_EQ(pool->pages_freed(), 1);
}

TEST(PagePool, GivesAllItsMemoryBack) {
  FakeBackend backend;
  {
    const auto pool = MakePool(backend, 5, kLayout);
    EXPECT_GE(backend.bytes_allocated(), 5 * kLayout.page_bytes());
  }
  EXPECT_EQ(backend.bytes_allocated(), 0);
}

TEST(PagePool, SaysHowManyBytesCouldNotBeHad) {
  FakeBackend backend;
  backend.memory_limit = 10 * kLayout.page_bytes();
  const auto pool = PagePool::Make(backend, kLayout, 11);
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.status().code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(pool.status().message(), HasSubstr("11 pages of 2048 bytes (22528 bytes in all)"));
  EXPECT_EQ(backend.bytes_allocated(), 0);
}

TEST(PagePool, FailsAsAWholeIfOnlyTheListOfMovesDoesNotFit) {
  FakeBackend backend;
  backend.memory_limit = 10 * kLayout.page_bytes();
  EXPECT_EQ(PagePool::Make(backend, kLayout, 10).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(backend.bytes_allocated(), 0);
}

TEST(PagePool, RefusesNoPagesAndMoreThanInt32SlotsCanName) {
  FakeBackend backend;
  for (int64_t num_pages : {int64_t(-1), int64_t(0), int64_t(1) << 27}) {
    const auto pool = PagePool::Make(backend, kLayout, num_pages);
    ASSERT_FALSE(pool.ok());
    EXPECT_EQ(pool.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(pool.status().message(), HasSubstr("found " + std::to_string(num_pages)));
  }
}

TEST(PagePool, PoisonsGivenPagesAndNoOthers) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 3, kLayout);
  pool->set_poison_on_release(true);
  for (int i = 0; i < 3; ++i) pool->Take();
  pool->Give(1);
  PoolImage image(*pool);
  const std::vector<std::byte> clear(size_t(2 * 32 * 2), std::byte(0)), poison(clear.size(), std::byte(0xff));
  for (int64_t slot = 0; slot < 3 * kPageSlots; ++slot) {
    EXPECT_EQ(image.Slot(slot), slot / kPageSlots == 1 ? poison : clear) << slot;
  }
}

TEST(PagePool, MovesMoreSlotsThanOneListHolds) {
  FakeBackend backend;
  constexpr KvLayout kSmall{.head_dim = 16, .dtype = DType::kBF16};
  constexpr int64_t kSlots = 80000;
  const auto pool = MakePool(backend, kSlots / kPageSlots, kSmall);
  PoolImage before(*pool);
  for (int64_t slot = 0; slot < kSlots; ++slot) before.SetSlot(slot, Stamp(kSmall, 1, 0, 0, slot));
  before.Upload();
  std::vector<int32_t> moves;
  for (int32_t slot = 1; slot < kSlots; ++slot) moves.insert(moves.end(), {slot, slot - 1});
  pool->MoveSlots(moves);
  EXPECT_EQ(backend.num_compactions, 2);
  PoolImage after(*pool);
  for (int64_t slot = 0; slot + 1 < kSlots; ++slot) ASSERT_EQ(after.Slot(slot), Stamp(kSmall, 1, 0, 0, slot + 1));
}

TEST(PagePoolDeathTest, EndsTheProgramOnAPageGivenBackTwiceOrNeverTaken) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 2, kLayout);
  const int32_t page = pool->Take();
  pool->Give(page);
  EXPECT_DEATH(pool->Give(page), "check failed");
  EXPECT_DEATH(pool->Give(1), "check failed");
  EXPECT_DEATH(pool->Give(2), "check failed");
}

TEST(PagePoolDeathTest, EndsTheProgramWhenNoPageIsLeft) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 1, kLayout);
  pool->Take();
  EXPECT_DEATH(pool->Take(), "check failed");
}

}  // namespace
}  // namespace winnow
