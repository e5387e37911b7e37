#include "kv/budget.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

constexpr KvShape kShape{.num_layers = 3, .num_kv_heads = 4, .entry_bytes = 256};

int64_t SumOverHeads(const KvBudget& budget, const KvShape& shape) {
  int64_t sum = 0;
  for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
    for (int64_t head = 0; head < shape.num_kv_heads; ++head) sum += budget.BudgetOf(layer, head);
  }
  return sum;
}

TEST(KvBudget, HeadsSumToTheTotalWhateverItIs) {
  for (int64_t total = 0; total <= 200; ++total) {
    const KvBudget budget = DivideEntries(total, kShape, 1);
    EXPECT_EQ(SumOverHeads(budget, kShape), total);
    EXPECT_EQ(budget.TotalEntries(kShape.num_layers), total);
  }
}

TEST(KvBudget, WhatIsLeftOverGoesToTheFirstHeadsLayerByLayer) {
  const KvBudget budget = DivideEntries(12 * 10 + 5, kShape, 1);
  EXPECT_EQ(budget.tokens, 10);
  for (int64_t head = 0; head < 4; ++head) EXPECT_EQ(budget.BudgetOf(0, head), 11) << head;
  EXPECT_EQ(budget.BudgetOf(1, 0), 11);
  EXPECT_EQ(budget.BudgetOf(1, 1), 10);
  EXPECT_EQ(budget.BudgetOf(2, 3), 10);
}

TEST(KvBudget, OnlyWholeSetsOfHeadsGrow) {
  const KvBudget by_layer = DivideEntries(12 * 10 + 11, kShape, 4);
  EXPECT_EQ(by_layer.larger_heads, 8);  // two layers; 3 entries stay unspent
  EXPECT_EQ(by_layer.BudgetOf(1, 3), 11);
  EXPECT_EQ(by_layer.BudgetOf(2, 0), 10);
  const KvBudget by_sequence = DivideEntries(12 * 10 + 11, kShape, 12);
  EXPECT_EQ(by_sequence.larger_heads, 0);
  EXPECT_EQ(SumOverHeads(by_sequence, kShape), 120);
}

TEST(KvBudget, ABudgetInTokensNeedsNoModel) {
  const KvBudget budget{.tokens = 64};
  EXPECT_EQ(budget.BudgetOf(7, 3), 64);
}

TEST(KvBudget, BytesAreWholeEntries) {
  EXPECT_EQ(EntriesInBytes(255, kShape), 0);
  EXPECT_EQ(EntriesInBytes(256, kShape), 1);
  EXPECT_EQ(EntriesInBytes(int64_t(1) << 62, kShape), int64_t(1) << 54);
}

TEST(KvBudget, ARatioIsOfThePromptsFullCacheRoundedDown) {
  EXPECT_EQ(EntriesInRatio(1, 100, kShape), 1200);
  EXPECT_EQ(EntriesInRatio(0.5, 101, kShape), 606);
  EXPECT_EQ(EntriesInRatio(0.333, 10, kShape), 39);  // 39.96
  EXPECT_EQ(EntriesInRatio(0.0001, 10, kShape), 0);
  // The double nearest to 0.29 is below it: 0.29 * 100 is 28.999999999999996.
  EXPECT_EQ(EntriesInRatio(0.29, 100, {.num_layers = 1, .num_kv_heads = 1, .entry_bytes = 2}), 29);
}

}  // namespace
}  // namespace winnow
