#include "kv/kv_batch.h"

#include <gtest/gtest.h>

#include <deque>

#include "tests/kv/kv_test_support.h"
#include "tests/support/fake_backend.h"

namespace winnow {
namespace {

constexpr KvLayout kLayout{.head_dim = 16, .dtype = DType::kBF16};

std::vector<int32_t> Download(Backend& backend, const Tensor& tensor) {
  EXPECT_EQ(tensor.dtype(), DType::kI32);
  std::vector<int32_t> host(size_t(tensor.num_elements()));
  backend.CopyToHost(std::as_writable_bytes(std::span(host)), tensor);
  return host;
}

// Compares every number of the batch with a loop over layers, items, rows and heads.
void ExpectBatchOf(Backend& backend, const KvBatch& batch, const std::vector<KvBatchItem>& items) {
  const int64_t num_heads = items[0].cache->num_kv_heads();
  int64_t num_rows = 0;
  for (const KvBatchItem& item : items) num_rows += item.num_rows;
  ASSERT_EQ(batch.num_rows(), num_rows);
  const std::vector<int32_t> sequences = Download(backend, batch.row_sequence());
  ASSERT_EQ(int64_t(sequences.size()), num_rows);
  for (int64_t layer = 0; layer < items[0].cache->num_layers(); ++layer) {
    const Tensor table_tensor = batch.page_table(layer);
    ASSERT_EQ(table_tensor.dim(0), int64_t(items.size()));
    ASSERT_EQ(table_tensor.dim(1), num_heads);
    const int64_t max_pages = table_tensor.dim(2);
    const std::vector<int32_t> table = Download(backend, table_tensor);
    ASSERT_TRUE(batch.physical_slots(layer).Is(DType::kI32, {num_rows, num_heads}));
    ASSERT_TRUE(batch.visible(layer).Is(DType::kI32, {num_rows, num_heads}));
    const std::vector<int32_t> slots = Download(backend, batch.physical_slots(layer));
    const std::vector<int32_t> visible = Download(backend, batch.visible(layer));
    int64_t row = 0;
    for (int64_t sequence = 0; sequence < int64_t(items.size()); ++sequence) {
      const KvBatchItem& item = items[size_t(sequence)];
      for (int64_t i = 0; i < item.num_rows; ++i, ++row) {
        ASSERT_EQ(sequences[size_t(row)], sequence);
        for (int64_t h = 0; h < num_heads; ++h) {
          const HeadCache& head = item.cache->head(layer, h);
          const int64_t slot = head.length() - item.num_rows + i;
          ASSERT_EQ(slots[size_t(row * num_heads + h)], head.PhysicalSlot(slot));
          ASSERT_EQ(visible[size_t(row * num_heads + h)], slot + 1);
          for (int64_t seen = 0; seen <= slot; ++seen) {
            ASSERT_LT(seen / kPageSlots, max_pages);
            ASSERT_EQ(table[size_t((sequence * num_heads + h) * max_pages + seen / kPageSlots)],
                      head.pages[size_t(seen / kPageSlots)]);
          }
        }
      }
    }
  }
}

TEST(KvBatch, EqualsANaiveLoopForRaggedHeadsAndMixedSteps) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 2000, kLayout);
  constexpr int64_t kLayers = 3, kHeads = 2;
  std::deque<SequenceCache> caches;
  KvBatch batch(backend);
  for (uint64_t step = 0; step < 30; ++step) {
    if (step % 4 == 0) caches.emplace_back(*pool, kLayers, kHeads, 0);
    std::vector<KvBatchItem> items;
    for (size_t i = 0; i < caches.size(); ++i) {
      if (HashWords({step, i, 1}) % 4 == 0 && !items.empty()) continue;  // not every sequence is in every step
      const bool decode = HashWords({step, i, 2}) % 2 == 0;
      items.push_back({&caches[i], decode ? 1 : 1 + int64_t(HashWords({step, i, 3}) % 40)});
      ReserveAndAppend(caches[i], items.back().num_rows);
    }
    const Status status = batch.Build(items);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_NO_FATAL_FAILURE(ExpectBatchOf(backend, batch, items)) << step;
    for (const KvBatchItem& item : items) {
      if (item.cache->max_length() < 60) continue;
      KeepPlan plan;  // another length for every head
      for (int64_t layer = 0; layer < kLayers; ++layer) {
        for (int64_t h = 0; h < kHeads; ++h) {
          plan.kept.push_back(RandomSlots(item.cache->head(layer, h).length(), 30 + uint64_t(layer * 20 + h * 10),
                                          HashWords({step, uint64_t(layer), uint64_t(h)})));
        }
      }
      const_cast<SequenceCache*>(item.cache)->Compact(plan);
    }
  }
}

TEST(KvBatch, LeavesReservedPagesOutOfTheTables) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 100, kLayout);
  SequenceCache cache(*pool, 1, 1, 0);
  ASSERT_TRUE(cache.Reserve(100).ok());
  cache.Append(17);
  KvBatch batch(backend);
  const std::vector<KvBatchItem> items = {{&cache, 17}};
  ASSERT_TRUE(batch.Build(items).ok());
  EXPECT_EQ(batch.page_table(0).dim(2), 2);
  ExpectBatchOf(backend, batch, items);
}

TEST(KvBatch, UploadsFourTablesAStepWhateverTheLayersAndSeldomAllocates) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 1000, kLayout);
  SequenceCache cache(*pool, 5, 3, 0);
  KvBatch batch(backend);
  ReserveAndAppend(cache, 1);
  ASSERT_TRUE(batch.Build(std::vector<KvBatchItem>{{&cache, 1}}).ok());
  EXPECT_EQ(backend.num_uploads, 4);
  const int64_t allocations = backend.num_allocations;
  for (int i = 0; i < 500; ++i) {
    ReserveAndAppend(cache, 1);
    ASSERT_TRUE(batch.Build(std::vector<KvBatchItem>{{&cache, 1}}).ok());
  }
  EXPECT_EQ(backend.num_uploads, 4 * 501);
  EXPECT_LE(backend.num_allocations - allocations, 6);  // from 1 page a head to 32 by doubling
}

TEST(KvBatch, ReportsMissingMemoryAndKeepsTheTablesOfTheStepBefore) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 100, kLayout);
  SequenceCache cache(*pool, 2, 2, 0), other(*pool, 2, 2, 0);
  KvBatch batch(backend);
  ReserveAndAppend(cache, 3);
  ReserveAndAppend(other, 200);
  const std::vector<KvBatchItem> items = {{&cache, 3}};
  ASSERT_TRUE(batch.Build(items).ok());
  backend.memory_limit = backend.bytes_allocated();
  const Status status = batch.Build(std::vector<KvBatchItem>{{&cache, 3}, {&other, 200}});
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  ExpectBatchOf(backend, batch, items);
}

TEST(KvBatchDeathTest, EndsTheProgramOnMoreRowsThanSlotsAndOnNoRows) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 100, kLayout);
  SequenceCache cache(*pool, 1, 1, 0);
  ReserveAndAppend(cache, 3);
  KvBatch batch(backend);
  EXPECT_DEATH((void)batch.Build(std::vector<KvBatchItem>{{&cache, 4}}), "check failed");
  EXPECT_DEATH((void)batch.Build(std::vector<KvBatchItem>{{&cache, 0}}), "check failed");
  EXPECT_DEATH((void)batch.Build({}), "check failed");
}

}  // namespace
}  // namespace winnow
