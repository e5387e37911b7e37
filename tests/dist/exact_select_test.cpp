#include "dist/exact_select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/hash.h"
#include "dist/shard.h"

namespace winnow {
namespace {

// A whole selection, before it is cut over ranks.
struct Whole {
  std::vector<uint32_t> keys;
  std::vector<int64_t> weights;  // empty: all 1
  int64_t target;
  int order_bits = 64;

  // The lower index first, told apart in the low bits or in all of them.
  uint64_t OrderOf(size_t i) const {
    const uint64_t low = 255 - uint64_t(i);
    return order_bits == 8 ? low : low * (~uint64_t(0) / 255);
  }
  int64_t Weight(size_t i) const { return weights.empty() ? 1 : weights[i]; }
  int64_t Total() const {
    int64_t total = 0;
    for (size_t i = 0; i < keys.size(); ++i) total += Weight(i);
    return total;
  }
};

// By sorting: higher key first, then lower index, until the weights reach the target.
std::vector<bool> NaiveKept(const Whole& whole) {
  std::vector<size_t> order(whole.keys.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return whole.keys[a] > whole.keys[b]; });
  std::vector<bool> kept(order.size(), whole.Total() <= whole.target);
  int64_t sum = 0;
  for (size_t i = 0; i < order.size() && sum < whole.target; ++i) {
    kept[order[i]] = true;
    sum += whole.Weight(order[i]);
  }
  return kept;
}

// Consecutive uneven parts; with more ranks than entries some parts are empty.
Range PartOf(size_t count, int rank, int num_ranks) {
  const auto cut = [&](int r) { return int64_t(double(count) * std::sqrt(double(r) / num_ranks)); };
  return {cut(rank), cut(rank + 1)};
}

// What the ranks keep together, for several selections solved in one call.
std::vector<std::vector<bool>> KeptOnRanks(int num_ranks, const std::vector<Whole>& wholes) {
  std::vector<std::vector<uint8_t>> kept;
  for (const Whole& whole : wholes) kept.emplace_back(whole.keys.size(), 0);
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    std::vector<std::vector<SelectKey>> keys;
    for (const Whole& whole : wholes) {
      auto& all = keys.emplace_back();
      for (size_t i = 0; i < whole.keys.size(); ++i) all.push_back({whole.keys[i], whole.OrderOf(i)});
    }
    std::vector<SelectProblem> problems;
    for (size_t p = 0; p < wholes.size(); ++p) {
      const Whole& whole = wholes[p];
      const Range part = PartOf(whole.keys.size(), communicator.rank(), num_ranks);
      const auto cut = [&](auto& values) { return std::span(values).subspan(size_t(part.begin), size_t(part.size())); };
      problems.push_back({.keys = cut(keys[p]), .target = whole.target, .order_bits = whole.order_bits});
      if (whole.weights.empty()) continue;
      problems.back().weights = cut(whole.weights);
      problems.back().is_weighted = true;
    }
    const auto results = ExactSelect(communicator, problems);
    for (size_t p = 0; p < problems.size(); ++p) {
      const Range part = PartOf(wholes[p].keys.size(), communicator.rank(), num_ranks);
      for (size_t i = 0; i < problems[p].keys.size(); ++i) {
        kept[p][size_t(part.begin) + i] = problems[p].keys[i] >= results[p];
      }
    }
    if (communicator.size() > 1) {
      EXPECT_LE(communicator.counters().calls, 12);
      EXPECT_EQ(communicator.counters().payload_bytes, communicator.counters().calls * int64_t(wholes.size()) * 2048);
    }
  });
  std::vector<std::vector<bool>> result;
  for (const auto& bits : kept) result.emplace_back(bits.begin(), bits.end());
  return result;
}

void ExpectNaive(const std::vector<Whole>& wholes) {
  for (int num_ranks : {1, 2, 3, 5}) {
    const auto kept = KeptOnRanks(num_ranks, wholes);
    for (size_t p = 0; p < wholes.size(); ++p) {
      EXPECT_EQ(kept[p], NaiveKept(wholes[p])) << num_ranks << " ranks, selection " << p;
    }
  }
}

// `distinct` different keys at most, all over the 32 bits.
Whole RandomKeys(uint64_t seed, size_t count, uint64_t distinct, int64_t target) {
  Whole whole{.keys = {}, .weights = {}, .target = target};
  for (size_t i = 0; i < count; ++i) {
    whole.keys.push_back(uint32_t(Mix64(HashWords({seed, i}) % distinct)));
  }
  return whole;
}

TEST(ExactSelect, TopKEqualsASortForEveryRankCount) {
  for (uint64_t seed = 0; seed < 8; ++seed) ExpectNaive({RandomKeys(seed, 200, 1u << 30, int64_t(1 + 24 * seed))});
}

TEST(ExactSelect, OfManyTiesTheFirstEntriesAreKept) {
  for (uint64_t distinct : {1, 2, 3, 10}) {
    for (int64_t target : {1, 2, 33, 99, 100}) ExpectNaive({RandomKeys(distinct, 101, distinct, target)});
  }
}

TEST(ExactSelect, KeysThatDifferInTheLastBitAloneAreToldApart) {
  Whole whole{.keys = {}, .weights = {}, .target = 7};
  for (uint32_t i = 0; i < 40; ++i) whole.keys.push_back(0x80000000u | (i * 7 % 40));
  ExpectNaive({whole});
}

TEST(ExactSelect, WeightsAreReachedByTheFewestKeys) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Whole whole = RandomKeys(seed, 150, 40, 0);
    // Equal keys have equal weights; some weigh nothing.
    for (uint32_t key : whole.keys) whole.weights.push_back(key % 5 == 0 ? 0 : int64_t(HashWords({key}) >> 24));
    for (double share : {0.01, 0.5, 0.9, 0.999}) {
      whole.target = std::max<int64_t>(1, int64_t(std::ceil(share * double(whole.Total()))));
      ExpectNaive({whole});
    }
  }
}

TEST(ExactSelect, ATargetAtOrAboveTheTotalKeepsEverything) {
  for (int64_t target : {50, 51, 1000}) ExpectNaive({RandomKeys(1, 50, 9, target)});
  Whole weighted = RandomKeys(2, 50, 9, 0);
  for (uint32_t key : weighted.keys) weighted.weights.push_back(int64_t(key % 3));
  weighted.target = weighted.Total();
  ExpectNaive({weighted});
}

TEST(ExactSelect, TargetOneKeepsTheLargestKeyAlone) {
  const Whole whole = RandomKeys(3, 64, 5, 1);
  const auto kept = KeptOnRanks(3, {whole})[0];
  ASSERT_EQ(std::count(kept.begin(), kept.end(), true), 1);
  const auto largest = std::max_element(whole.keys.begin(), whole.keys.end()) - whole.keys.begin();
  EXPECT_TRUE(kept[size_t(largest)]);
}

TEST(ExactSelect, TheSmallestAndTheLargestKeyAreOrdinaryKeys) {
  ExpectNaive({{.keys = {0, 0xffffffffu, 0, 0xffffffffu, 1}, .weights = {}, .target = 2},
               {.keys = {0, 0, 0, 1, 0}, .weights = {}, .target = 3}});
}

TEST(ExactSelect, SeveralSelectionsAtOnceDoNotDisturbEachOther) {
  std::vector<Whole> wholes;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    wholes.push_back(RandomKeys(seed, 10 + 30 * seed, 1 + 13 * seed, int64_t(5 * seed + 1)));
  }
  ExpectNaive(wholes);
}

TEST(ExactSelect, RanksWithoutEntriesTakePart) {
  ExpectNaive({{.keys = {5, 9}, .weights = {}, .target = 1}});
  ExpectNaive({{.keys = {}, .weights = {}, .target = 4}});
}

TEST(ExactSelect, AnOrderOfEightBitsTellsTiesApartAsOneOfSixtyFourDoes) {
  for (int order_bits : {8, 64}) {
    Whole whole = RandomKeys(7, 200, 3, 71);
    whole.order_bits = order_bits;
    ExpectNaive({whole});
  }
}

TEST(ExactSelect, EndsAsSoonAsTheScoresDecide) {
  RunThreadRanks(2, [&](Communicator& communicator) {
    // Every score is different in its highest digit: one pass says it all.
    const std::vector<SelectKey> keys = {{0x10000000u + uint32_t(communicator.rank()) * 0x40000000u, 1}};
    const SelectProblem problem{.keys = keys, .target = 1};
    EXPECT_EQ(ExactSelect(communicator, {&problem, 1})[0].score, 0x50000000u);
    EXPECT_EQ(communicator.counters().calls, 1);
  });
}

TEST(OrderedKey, KeepsTheOrderOfFloats) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> ascending = {-kInf,  -3e38f, -1.5f,  -1.0f,  -1e-38f, -1e-40f, -1e-45f, 0.0f,
                                        1e-45f, 1e-40f, 1e-38f, 0.999f, 1.0f,    2.0f,    3e38f,   kInf};
  for (size_t i = 1; i < ascending.size(); ++i) {
    EXPECT_LT(OrderedKey(ascending[i - 1]), OrderedKey(ascending[i])) << ascending[i];
  }
}

TEST(OrderedKey, MinusZeroEqualsZero) {
  EXPECT_EQ(OrderedKey(-0.0f), OrderedKey(0.0f));
}

}  // namespace
}  // namespace winnow
