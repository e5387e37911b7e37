// Queries of an observation window in their cache: in the order of heads and tokens, and gone with what they belong to.
#include "kv/query_window.h"

#include <gmock/gmock.h>

#include "tests/kv/kv_test_support.h"
#include "tests/support/fake_backend.h"

namespace winnow {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kLayers = 2, kHeads = 3, kRowFloats = 2;

// Numbers that tell token, layer and head: tokens [begin, end) as a step delivers them.
std::vector<float> Rows(int64_t begin, int64_t end) {
  std::vector<float> rows;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    for (int64_t token = begin; token < end; ++token) {
      for (int64_t head = 0; head < kHeads; ++head) {
        for (int64_t i = 0; i < kRowFloats; ++i) rows.push_back(float(1000 * token + 100 * layer + 10 * head + i));
      }
    }
  }
  return rows;
}

QueryWindow Filled() {
  QueryWindow window(kLayers, kHeads);
  window.Append(22, 2, Rows(20, 22));
  window.Append(23, 1, Rows(22, 23));
  return window;
}

TEST(QueryWindow, HeadsHoldTheirOwnRowsInTheOrderOfTokens) {
  const QueryWindow window = Filled();
  EXPECT_EQ(window.num_rows(), 3);
  EXPECT_EQ(window.end_token(), 23);
  EXPECT_EQ(window.row_floats(), kRowFloats);
  EXPECT_THAT(window.head(1, 2), ElementsAre(20120, 20121, 21120, 21121, 22120, 22121));
  EXPECT_THAT(window.head(0, 0), ElementsAre(20000, 20001, 21000, 21001, 22000, 22001));
}

TEST(QueryWindow, StepsOfAnySizeHoldTheSame) {
  QueryWindow at_once(kLayers, kHeads), one_by_one(kLayers, kHeads);
  at_once.Append(28, 8, Rows(20, 28));
  for (int64_t token = 20; token < 28; ++token) one_by_one.Append(token + 1, 1, Rows(token, token + 1));
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    for (int64_t head = 0; head < kHeads; ++head) EXPECT_EQ(at_once.head(layer, head), one_by_one.head(layer, head));
  }
}

TEST(QueryWindow, RollbackDropsTheTokensThatAreTakenBackAndNoOthers) {
  QueryWindow window = Filled();
  window.Rollback(30);  // a probe that ran behind them
  EXPECT_EQ(window.num_rows(), 3);
  window.Rollback(23);
  EXPECT_EQ(window.num_rows(), 3);
  window.Rollback(21);
  EXPECT_EQ(window.num_rows(), 1);
  EXPECT_THAT(window.head(0, 1), ElementsAre(20010, 20011));
  window.Append(22, 1, Rows(21, 22));
  EXPECT_THAT(window.head(0, 1), ElementsAre(20010, 20011, 21010, 21011));
  window.Rollback(5);
  EXPECT_EQ(window.num_rows(), 0);
  EXPECT_THAT(window.head(0, 1), IsEmpty());
  window.Append(6, 1, Rows(5, 6));
  EXPECT_EQ(window.num_rows(), 1);
}

TEST(QueryWindow, KeepNewestDropsTheOlderRowsOfEveryHeadAndTheNextFollow) {
  QueryWindow window = Filled();
  window.KeepNewest(5);  // more than there are
  EXPECT_EQ(window.num_rows(), 3);
  window.KeepNewest(2);
  EXPECT_EQ(window.num_rows(), 2);
  EXPECT_THAT(window.head(1, 2), ElementsAre(21120, 21121, 22120, 22121));
  window.Append(24, 1, Rows(23, 24));
  EXPECT_THAT(window.head(0, 0), ElementsAre(21000, 21001, 22000, 22001, 23000, 23001));
  window.KeepNewest(0);
  EXPECT_EQ(window.num_rows(), 0);
  window.Append(30, 1, Rows(29, 30));
}

TEST(QueryWindow, ClearForgetsThemAndTheNextWindowMayBeginAnywhere) {
  QueryWindow window = Filled();
  window.Clear();
  EXPECT_EQ(window.num_rows(), 0);
  EXPECT_EQ(window.row_floats(), 0);
  EXPECT_THAT(window.head(1, 1), IsEmpty());
  window.Append(40, 1, Rows(39, 40));
  EXPECT_THAT(window.head(1, 1), ElementsAre(39110, 39111));
}

TEST(QueryWindowDeathTest, AGapOrRowsOfAnotherSizeEndTheProgram) {
  QueryWindow window = Filled();
  EXPECT_DEATH(window.Append(25, 1, Rows(24, 25)), "check failed");
  EXPECT_DEATH(window.Append(24, 1, std::vector<float>(kLayers * kHeads * 3)), "check failed");
  EXPECT_DEATH(window.Append(24, 1, {}), "check failed");
  EXPECT_DEATH(window.Append(24, 1, std::vector<float>(5)), "check failed");
}

TEST(SequenceCacheQueries, GoWithTheCacheAndWithTheTokens) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 40, {.head_dim = 16});
  SequenceCache cache(*pool, kLayers, kHeads, 0);
  ReserveAndAppend(cache, 20);
  cache.AppendQueries(2, Rows(18, 20));
  ReserveAndAppend(cache, 4);  // a probe: nobody asks for its queries
  cache.Rollback(4);
  EXPECT_EQ(cache.queries().num_rows(), 2);
  SequenceCache moved(std::move(cache));
  EXPECT_EQ(cache.queries().num_rows(), 0);
  EXPECT_THAT(moved.queries().head(1, 0), ElementsAre(18100, 18101, 19100, 19101));
  moved.Rollback(1);
  EXPECT_THAT(moved.queries().head(1, 0), ElementsAre(18100, 18101));
  moved.KeepQueries(0);
  EXPECT_EQ(moved.queries().num_rows(), 0);
  moved.AppendQueries(1, Rows(18, 19));
  moved.Release();
  EXPECT_EQ(moved.queries().num_rows(), 0);
}

TEST(SequenceCacheQueries, TheirPositionsLeaveOutPinnedSlots) {
  const auto backend = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  const auto pool = MakePool(*backend, 40, {.head_dim = 16});
  SequenceCache cache(*pool, kLayers, kHeads, 0);
  const std::vector<float> block(kLayers * kHeads * 2 * 16);
  ReserveAndAppend(cache, 5);
  ASSERT_TRUE(cache.Reserve(2).ok());
  cache.AppendPinned(2, block, block);
  ReserveAndAppend(cache, 3);
  EXPECT_THAT(cache.QueryPositions(), IsEmpty());
  cache.AppendQueries(5, Rows(3, 8));
  EXPECT_THAT(cache.QueryPositions(), ElementsAre(3, 4, 7, 8, 9));
  ASSERT_TRUE(cache.Reserve(2).ok());
  cache.AppendPinned(2, block, block);
  EXPECT_THAT(cache.QueryPositions(), ElementsAre(3, 4, 7, 8, 9));
  cache.KeepQueries(2);
  EXPECT_THAT(cache.QueryPositions(), ElementsAre(8, 9));
}

TEST(SequenceCacheQueriesDeathTest, SumsCannotBeTakenBack) {
  FakeBackend backend;
  const auto pool = MakePool(backend, 40, {.head_dim = 16});
  SequenceCache cache(*pool, kLayers, kHeads, 0);
  ReserveAndAppend(cache, 4);
  const std::vector<int64_t> positions = {3};
  cache.AddQueries(positions, std::vector<double>(8, 0.5), std::vector<float>(kLayers * kHeads * 16));
  EXPECT_DEATH(cache.Rollback(1), "check failed");
  cache.ClearQuerySums();
  cache.Rollback(1);
}

}  // namespace
}  // namespace winnow
