#include "engine/rank_load.h"

#include <gtest/gtest.h>

#include <vector>

namespace winnow {
namespace {

TEST(RankLoad, ImbalanceIsTheMostOverTheMean) {
  EXPECT_EQ(Imbalance(std::vector<int64_t>{7}), 1);
  EXPECT_EQ(Imbalance(std::vector<int64_t>{5, 5, 5}), 1);
  EXPECT_EQ(Imbalance(std::vector<int64_t>{6, 3}), 6 / 4.5);
  EXPECT_EQ(Imbalance(std::vector<int64_t>{0, 0, 12}), 3);
  EXPECT_EQ(Imbalance(std::vector<int64_t>{0, 0}), 1);
}

TEST(RankLoad, LoadsAddRankByRank) {
  RankLoad sum;
  AddLoad({.end_entries = {1, 2}, .peak_entries = {10, 20}}, &sum);
  AddLoad({.end_entries = {4, 0}, .peak_entries = {5, 5}}, &sum);
  EXPECT_EQ(sum.end_entries, (std::vector<int64_t>{5, 2}));
  EXPECT_EQ(sum.peak_entries, (std::vector<int64_t>{15, 25}));
}

TEST(RankLoadDeathTest, LoadsOfOtherGroupsDoNotAdd) {
  RankLoad sum{.end_entries = {1, 2}, .peak_entries = {1, 2}};
  EXPECT_DEATH(AddLoad({.end_entries = {1}, .peak_entries = {1}}, &sum), "");
}

}  // namespace
}  // namespace winnow
