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

// 5000 slots are two calls of 4096; they name pages in no order.
TEST(PagePool, ReadsAndWritesMoreSlotsThanOneCallTakes) {
  const auto backend = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  constexpr KvLayout kSmall{.head_dim = 16, .dtype = DType::kF32};
  constexpr int64_t kSlots = 5008, kWritten = 5000;
  const auto pool = PagePool::Make(*backend, kSmall, kSlots / kPageSlots, /*with_mass=*/true).value();
  std::vector<int32_t> slots;
  for (int64_t i = 0; i < kWritten; ++i) slots.push_back(int32_t(i * 2503 % kSlots));  // 2503 and 5008 share no factor
  std::vector<float> keys, values;
  for (int64_t i = 0; i < kWritten * 16; ++i) {
    keys.push_back(float(i));
    values.push_back(float(-i));
  }
  std::vector<int64_t> mass(static_cast<size_t>(kWritten));
  for (size_t i = 0; i < mass.size(); ++i) mass[i] = int64_t(i) << 33;
  pool->WriteSlots(slots, keys, values, mass);
  std::vector<float> got_keys(keys.size()), got_values(values.size());
  pool->ReadSlots(slots, got_keys, got_values);
  EXPECT_EQ(got_keys, keys);
  EXPECT_EQ(got_values, values);
  std::fill(got_values.begin(), got_values.end(), 7.0f);
  pool->ReadSlots(slots, {}, got_values);
  EXPECT_EQ(got_values, values);
  const std::vector<int64_t> page_mass = pool->ReadMass(std::vector<int32_t>{0});
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] < kPageSlots) {
      EXPECT_EQ(page_mass[size_t(slots[i])], mass[i]);
    }
  }
  pool->WriteSlots(slots, keys, values);
  EXPECT_EQ(pool->ReadMass(std::vector<int32_t>{0}), std::vector<int64_t>(kPageSlots, 0));
}

TEST(PagePool, SlotsThatWereNotWrittenKeepTheirBytes) {
  const auto backend = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  const auto pool = MakePool(*backend, 4, kLayout);
  PoolImage before(*pool);
  for (int64_t slot = 0; slot < 4 * kPageSlots; ++slot) before.SetSlot(slot, Stamp(kLayout, 3, 0, 0, slot));
  before.Upload();
  const std::vector<float> ones(3 * 32, 1.0f);
  const std::vector<int32_t> slots = {0, 17, 63};
  pool->WriteSlots(slots, ones, ones);
  PoolImage after(*pool);
  for (int64_t slot = 0; slot < 4 * kPageSlots; ++slot) {
    const bool is_written = slot == 0 || slot == 17 || slot == 63;
    EXPECT_EQ(after.Slot(slot) == Stamp(kLayout, 3, 0, 0, slot), !is_written) << slot;
  }
  pool->WriteSlots({}, {}, {});
  pool->ReadSlots({}, {}, {});
}

TEST(PagePoolDeathTest, SlotsAndRowsMustMatch) {
  const auto backend = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  const auto pool = MakePool(*backend, 1, kLayout);
  const std::vector<float> two(2 * 32, 0.0f);
  std::vector<float> one(32);
  const std::vector<int32_t> slots = {0, 1};
  const std::vector<int64_t> mass = {1, 2};
  EXPECT_DEATH(pool->ReadSlots(slots, one, {}), "check failed");
  EXPECT_DEATH(pool->WriteSlots(slots, two, one), "check failed");
  EXPECT_DEATH(pool->WriteSlots(slots, two, two, mass), "check failed");  // this pool has none
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
