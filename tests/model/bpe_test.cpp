#include "model/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/philox.h"

namespace winnow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int32_t> Apply(const BpeMerges& merges, const std::vector<int32_t>& symbols) {
  std::vector<int32_t> ids;
  merges.Apply(symbols, &ids);
  return ids;
}

TEST(BpeMerges, MergesTheLowestRankFirstAndTheLeftmostAmongEquals) {
  BpeMerges merges;
  EXPECT_TRUE(merges.Add(1, 2, 1, 12));
  EXPECT_TRUE(merges.Add(2, 3, 0, 23));
  EXPECT_TRUE(merges.Add(1, 1, 2, 11));
  EXPECT_FALSE(merges.Add(1, 2, 3, 99));
  EXPECT_THAT(Apply(merges, {1, 2, 3}), ElementsAre(1, 23));
  EXPECT_THAT(Apply(merges, {1, 2, 2}), ElementsAre(12, 2));
  EXPECT_THAT(Apply(merges, {1, 1, 1}), ElementsAre(11, 1));
  EXPECT_THAT(Apply(merges, {}), IsEmpty());
  EXPECT_THAT(Apply(merges, {7}), ElementsAre(7));
}

// The definition, word for word: look for the best pair in the whole word, merge it, look again.
std::vector<int32_t> Naive(const std::map<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>>& rules,
                           std::vector<int32_t> symbols) {
  while (true) {
    size_t best = symbols.size();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto rule = rules.find({symbols[i], symbols[i + 1]});
      if (rule == rules.end()) continue;
      if (best == symbols.size() || rule->second.first < rules.at({symbols[best], symbols[best + 1]}).first) best = i;
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = rules.at({symbols[best], symbols[best + 1]}).second;
    symbols.erase(symbols.begin() + long(best) + 1);
  }
}

TEST(BpeMerges, EqualsTheNaiveAlgorithmOnRandomWords) {
  for (uint32_t vocabulary = 0; vocabulary < 40; ++vocabulary) {
    BpeMerges merges;
    std::map<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>> rules;
    // Tokens 0 to 3, then one new token a rule, made of any two tokens before it.
    for (int32_t rank = 0; rank < 30; ++rank) {
      const PhiloxBlock random = Philox(3, {vocabulary, uint32_t(rank), 0, 0});
      const auto left = int32_t(random[0] % uint32_t(4 + rank)), right = int32_t(random[1] % uint32_t(4 + rank));
      const bool is_new = rules.emplace(std::pair(left, right), std::pair(rank, 4 + rank)).second;
      EXPECT_EQ(merges.Add(left, right, rank, 4 + rank), is_new);
    }
    for (uint32_t word = 0; word < 50; ++word) {
      std::vector<int32_t> symbols;
      for (uint32_t i = 0; i < 1 + word; ++i) symbols.push_back(int32_t(Philox(4, {vocabulary, word, i, 0})[0] % 4));
      ASSERT_EQ(Apply(merges, symbols), Naive(rules, symbols)) << vocabulary << " " << word;
    }
  }
}

}  // namespace
}  // namespace winnow
