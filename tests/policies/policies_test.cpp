// What every policy of the registry must do, then what each one alone does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/philox.h"
#include "kv/keep_plan.h"
#include "policies/eviction_policy.h"

namespace winnow {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Protection kProtection{.sink_tokens = 4, .recent_tokens = 32};

std::vector<int32_t> Positions(int64_t length) {
  std::vector<int32_t> positions(static_cast<size_t>(length));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

// A mass a slot, for policies that observe: pseudo-random and with many ties.
std::span<const int64_t> MassOf(size_t length) {
  static const std::vector<int64_t> kMass = [] {
    std::vector<int64_t> mass;
    for (uint32_t i = 0; i < 4096; ++i) mass.push_back(int64_t(Philox(3, {i, 0, 0, 0})[0] % 97) << 20);
    return mass;
  }();
  return std::span(kMass).first(length);
}

// A key a slot, likewise.
constexpr int64_t kHeadDim = 16;
std::span<const float> KeysOf(size_t length) {
  static const std::vector<float> kKeys = [] {
    std::vector<float> keys;
    for (uint32_t i = 0; i < 4096 * kHeadDim; ++i) keys.push_back(float(Philox(4, {i, 0, 0, 0})[0] % 7) - 3);
    return keys;
  }();
  return std::span(kKeys).first(length * kHeadDim);
}

// What the future pays to each slot, likewise.
std::span<const float> FutureOf(size_t length) {
  static const std::vector<float> kFuture = [] {
    std::vector<float> future;
    for (uint32_t i = 0; i < 4096; ++i) future.push_back(float(Philox(6, {i, 0, 0, 0})[0] % 97) / 97);
    return future;
  }();
  return std::span(kFuture).first(length);
}

// How much a replay looks at each slot, likewise.
std::span<const float> ReplayOf(size_t length) {
  static const std::vector<float> kReplay = [] {
    std::vector<float> replay;
    for (uint32_t i = 0; i < 4096; ++i) replay.push_back(float(Philox(7, {i, 0, 0, 0})[0] % 89) / 89);
    return replay;
  }();
  return std::span(kReplay).first(length);
}

// Queries of an observation window of 8 tokens, 3 heads to a group.
constexpr int64_t kGroup = 3;
std::span<const float> WindowQueries() {
  static const std::vector<float> kQueries = [] {
    std::vector<float> queries;
    for (uint32_t i = 0; i < 8 * kGroup * kHeadDim; ++i) queries.push_back(float(Philox(5, {i, 0, 0, 0})[0] % 9) / 8);
    return queries;
  }();
  return kQueries;
}

std::span<const int64_t> WindowPositions() {
  static const std::vector<int64_t> kPositions = {92, 93, 94, 95, 96, 97, 98, 99};
  return kPositions;
}

// Values and rotary frequencies need to tell nothing apart here.
std::span<const double> Frequencies() {
  static const std::vector<double> kFrequencies = {1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003};
  return kFrequencies;
}

HeadView ViewOf(const std::vector<int32_t>& positions) {
  return {.layer = 0,
          .global_head = 0,
          .positions = positions,
          .mass = MassOf(positions.size()),
          .keys = KeysOf(positions.size()),
          .head_dim = kHeadDim,
          .queries = WindowQueries(),
          .query_positions = WindowPositions(),
          .group = kGroup,
          .values = KeysOf(positions.size()),
          .rotary_frequencies = Frequencies(),
          .future = FutureOf(positions.size()),
          .replay = ReplayOf(positions.size()),
          .window_begin = RecentBegin(positions, {.recent_tokens = 8, .pinned_positions = {}}),
          .recent_begin = RecentBegin(positions, kProtection),
          .tokens_seen = positions.empty() ? 0 : positions.back() + 1,
          .prompt_tokens = 10,
          .eviction_index = 0,
          .seed = 1,
          .choice_index = 0};
}

std::vector<float> Scores(const EvictionPolicy& policy, const HeadView& view) {
  std::vector<float> scores(view.positions.size());
  policy.Score(view, scores);
  return scores;
}

std::vector<int32_t> Kept(const EvictionPolicy& policy, const HeadView& view, int64_t budget,
                          const Protection& protection = kProtection) {
  return SelectKept(view.positions, Scores(policy, view), budget, protection);
}

std::vector<std::string> EvictingPolicyNames() {
  std::vector<std::string> names;
  for (const std::string& name : PolicyNames()) {
    if (MakePolicy(name).value()->evicts()) names.push_back(name);
  }
  return names;
}

class PolicyContract : public testing::TestWithParam<std::string> {
 protected:
  const std::unique_ptr<EvictionPolicy> policy_ = MakePolicy(GetParam()).value();
};

INSTANTIATE_TEST_SUITE_P(All, PolicyContract, testing::ValuesIn(EvictingPolicyNames()), [](const auto& policy) {
  std::string name = policy.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(PolicyContract, MeetsTheBudgetExactly) {
  for (int64_t length : {100, 101, 500, 3000}) {
    for (int64_t budget : {36, 37, 64, 99}) {
      const std::vector<int32_t> positions = Positions(length);
      EXPECT_EQ(int64_t(Kept(*policy_, ViewOf(positions), budget).size()), budget);
    }
  }
}

TEST_P(PolicyContract, KeepsSinksAndRecentTokens) {
  const std::vector<int32_t> positions = Positions(200);
  const std::vector<int32_t> kept = Kept(*policy_, ViewOf(positions), 50);
  const std::set<int32_t> set(kept.begin(), kept.end());
  for (int32_t position = 0; position < 4; ++position) EXPECT_TRUE(set.contains(position)) << position;
  for (int32_t position = 168; position < 200; ++position) EXPECT_TRUE(set.contains(position)) << position;
}

TEST_P(PolicyContract, LeavesShortContextsUntouched) {
  for (int64_t length : {0, 1, 35, 64}) {
    const std::vector<int32_t> positions = Positions(length);
    EXPECT_EQ(Kept(*policy_, ViewOf(positions), 64), positions) << length;
  }
}

TEST_P(PolicyContract, ScoresAreNumbersAndTheSameEveryTime) {
  const std::vector<int32_t> positions = Positions(1000);
  const std::vector<float> scores = Scores(*policy_, ViewOf(positions));
  for (float score : scores) ASSERT_TRUE(std::isfinite(score));
  EXPECT_EQ(Scores(*policy_, ViewOf(positions)), scores);
  EXPECT_EQ(Scores(*MakePolicy(GetParam()).value(), ViewOf(positions)), scores);
}

TEST_P(PolicyContract, ScoresDoNotDependOnTheOrderInWhichHeadsAreAsked) {
  const std::vector<int32_t> positions = Positions(200);
  const auto score_of = [&](int64_t index) {
    HeadView view = ViewOf(positions);
    view.layer = index / 3;
    view.global_head = index % 3;
    return Scores(*policy_, view);
  };
  std::vector<std::vector<float>> forward(12), backward(12);
  for (int64_t index = 0; index < 12; ++index) forward[size_t(index)] = score_of(index);
  for (int64_t index = 11; index >= 0; --index) backward[size_t(index)] = score_of(index);
  EXPECT_EQ(forward, backward);
}

TEST_P(PolicyContract, HoldsTheBudgetOverRepeatedEvictions) {
  std::vector<int32_t> positions;
  int64_t evictions = 0;
  for (int32_t token = 0; token < 600; ++token) {
    positions.push_back(token);
    if (positions.size() < 64 + 16) continue;
    HeadView view = ViewOf(positions);
    view.eviction_index = evictions++;
    std::vector<int32_t> kept_positions;
    for (int32_t slot : Kept(*policy_, view, 64)) kept_positions.push_back(positions[size_t(slot)]);
    positions = kept_positions;
    ASSERT_EQ(positions.size(), 64u);
    ASSERT_TRUE(std::is_sorted(positions.begin(), positions.end()));
    ASSERT_EQ(positions[3], 3);
    ASSERT_EQ(positions[64 - 32], token - 31);
  }
  EXPECT_GT(evictions, 30);
}

TEST(PolicyRegistry, MakesEveryPolicyUnderItsOwnName) {
  std::vector<std::string> names = PolicyNames();
  EXPECT_THAT(names, testing::IsSupersetOf({"full", "streaming-llm", "random", "h2o", "snapkv", "snapkv-prefill"}));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << "two policies of one name";
  for (const std::string& name : PolicyNames()) {
    const auto policy = MakePolicy(name).value();
    EXPECT_EQ(policy->name(), name);
    EXPECT_EQ(policy->positions(), name == "streaming-llm-compacted" ? "compacted" : "absolute");
    EXPECT_TRUE(policy->SupportsScope(policy->scope()));
    EXPECT_EQ(policy->evicts(), name != "full");
  }
}

TEST(PolicyRegistry, RefusesUnknownNamesAndListsTheKnownOnes) {
  for (const std::string name : {"h3o", "", "Random", "full "}) {
    const auto policy = MakePolicy(name);
    ASSERT_FALSE(policy.ok());
    EXPECT_EQ(policy.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(policy.status().message(), AllOf(HasSubstr("full, streaming-llm, streaming-llm-compacted, random"),
                                                 HasSubstr("\"" + name + "\"")));
  }
}

TEST(PolicyRegistry, NamesTheScopes) {
  EXPECT_EQ(Name(EvictionScope::kHead), "head");
  EXPECT_EQ(Name(EvictionScope::kLayer), "layer");
  EXPECT_EQ(Name(EvictionScope::kSequence), "sequence");
}

TEST(FullPolicyDeathTest, EndsTheProgramIfItIsAskedToScore) {
  const auto policy = MakePolicy("full").value();
  const std::vector<int32_t> positions = Positions(3);
  EXPECT_DEATH(Scores(*policy, ViewOf(positions)), "check failed");
}

TEST(StreamingLlmPolicy, KeepsTheSinksAndTheNewestTokens) {
  const auto policy = MakePolicy("streaming-llm").value();
  for (int64_t sinks : {0, 1, 4, 16}) {
    for (int64_t recent : {0, 16, 48}) {
      constexpr int64_t kLength = 300, kBudget = 64;
      const std::vector<int32_t> positions = Positions(kLength);
      std::vector<int32_t> expected = Positions(sinks);
      for (int64_t position = kLength - (kBudget - sinks); position < kLength; ++position) {
        expected.push_back(int32_t(position));
      }
      EXPECT_EQ(Kept(*policy, ViewOf(positions), kBudget, {sinks, recent}), expected) << sinks << " " << recent;
    }
  }
}

TEST(StreamingLlmPolicy, KeepsTheNewestWherePositionsAreNoLongerExactInFloat) {
  const auto policy = MakePolicy("streaming-llm").value();
  std::vector<int32_t> positions = Positions(10);
  for (int32_t& position : positions) position += 100'000'000;  // floats are 8 apart here
  EXPECT_THAT(Kept(*policy, ViewOf(positions), 3, {}), testing::ElementsAre(7, 8, 9));
}

TEST(RandomPolicy, DrawsAnewForEveryHeadLayerEvictionChoiceAndSeed) {
  const auto policy = MakePolicy("random").value();
  const std::vector<int32_t> positions = Positions(300);
  std::set<std::vector<int32_t>> sets;
  const auto draw = [&](auto change) {
    HeadView view = ViewOf(positions);
    change(view);
    sets.insert(Kept(*policy, view, 100));
  };
  draw([](HeadView&) {});
  for (int64_t i = 1; i <= 8; ++i) {
    draw([i](HeadView& view) { view.layer = i; });
    draw([i](HeadView& view) { view.global_head = i; });
    draw([i](HeadView& view) { view.eviction_index = i; });
    draw([i](HeadView& view) { view.choice_index = i; });
    draw([i](HeadView& view) { view.seed = uint64_t(1 + i); });
    draw([i](HeadView& view) { view.seed = 1 + (uint64_t(i) << 32); });
  }
  EXPECT_EQ(sets.size(), 1u + 6 * 8);
}

TEST(RandomPolicy, DependsOnTheKeysAndPositionAlone) {
  const auto policy = MakePolicy("random").value();
  const std::vector<int32_t> all = Positions(100);
  std::vector<int32_t> some = {0, 3, 50, 51, 99};
  HeadView view = ViewOf(some);
  view.tokens_seen = 12345;  // neither these nor the other slots have a say
  view.prompt_tokens = 77;
  const std::vector<float> of_all = Scores(*policy, ViewOf(all)), of_some = Scores(*policy, view);
  for (size_t slot = 0; slot < some.size(); ++slot) EXPECT_EQ(of_some[slot], of_all[size_t(some[slot])]);
}

TEST(RandomPolicy, ScoresAreInsideTheUnitIntervalAndUniform) {
  const auto policy = MakePolicy("random").value();
  constexpr int64_t kCells = 64;
  constexpr double kCount = 64'000, kExpected = kCount / kCells;
  const std::vector<int32_t> positions = Positions(int64_t(kCount));
  std::vector<double> counts(kCells);
  for (float score : Scores(*policy, ViewOf(positions))) {
    ASSERT_GT(score, 0.0f);
    ASSERT_LT(score, 1.0f);
    counts[size_t(score * kCells)] += 1;
  }
  double chi_square = 0;
  for (double count : counts) chi_square += (count - kExpected) * (count - kExpected) / kExpected;
  EXPECT_LT(chi_square, 120);  // 63 degrees of freedom: above 120 once in 50,000 seeds
}

TEST(RandomPolicy, KeepsEveryAgeAlikeOverManyHeads) {
  const auto policy = MakePolicy("random").value();
  constexpr int64_t kLength = 200, kBudget = 50, kDraws = 2000;
  constexpr double kExpected = double(kDraws) * kBudget / kLength;
  const std::vector<int32_t> positions = Positions(kLength);
  std::vector<double> counts(kLength);
  for (int64_t draw = 0; draw < kDraws; ++draw) {
    HeadView view = ViewOf(positions);
    view.layer = draw / 50;
    view.global_head = draw % 50;
    for (int32_t slot : Kept(*policy, view, kBudget, {})) counts[size_t(slot)] += 1;
  }
  double chi_square = 0;
  for (double count : counts) chi_square += (count - kExpected) * (count - kExpected) / (kExpected * 0.75);
  EXPECT_LT(chi_square, 290);  // 199 degrees of freedom: above 290 once in 30,000 seeds
}

TEST(H2oPolicy, KeepsTheHeaviestSlotsAndGivesHalfTheBudgetToTheNewest) {
  const auto policy = MakePolicy("h2o").value();
  EXPECT_EQ(policy->observations(), Observations{.mass = ObservedMass::kCumulative});
  EXPECT_EQ(policy->RecentTokens(100, 32), 50);
  EXPECT_EQ(policy->RecentTokens(40, 32), 32);
  const std::vector<int32_t> positions = Positions(12);
  std::vector<int64_t> mass = {5, 1, 9, 1, 1, 7, 1, 1, 1, 1, 1, 1};
  HeadView view = ViewOf(positions);
  view.mass = mass;
  EXPECT_THAT(Kept(*policy, view, 6, {.sink_tokens = 0, .recent_tokens = 3}), testing::ElementsAre(0, 2, 5, 9, 10, 11));
}

TEST(SnapKvPolicy, PoolsFiveNeighboursOfThePrefixAndIgnoresTheWindow) {
  const auto policy = MakePolicy("snapkv").value();
  EXPECT_EQ(policy->observations(), Observations{.mass = ObservedMass::kWindow});
  const std::vector<int32_t> positions = Positions(10);
  const std::vector<int64_t> mass = {10, 0, 0, 4, 0, 0, 20, 0, 1000, 1000};  // the last two are the window
  HeadView view = ViewOf(positions);
  view.mass = mass;
  view.recent_begin = 8;
  EXPECT_THAT(Scores(*policy, view), testing::ElementsAre(10, 14, 14, 4, 24, 24, 20, 20, 0, 0));
}

// The paper's formula word for word, in long double and by another route: every key divided by its length, the mean of
// these, and the cosine of each key with the mean.
std::vector<float> KeyDiffByHand(std::span<const float> keys, size_t dims) {
  const size_t count = keys.size() / dims;
  std::vector<std::vector<long double>> units(count, std::vector<long double>(dims));
  std::vector<long double> mean(dims, 0);
  for (size_t slot = 0; slot < count; ++slot) {
    long double squares = 0;
    for (size_t i = 0; i < dims; ++i) squares += (long double)(keys[slot * dims + i]) * keys[slot * dims + i];
    for (size_t i = 0; i < dims; ++i) {
      units[slot][i] = squares > 0 ? keys[slot * dims + i] / std::sqrt(squares) : 0;
      mean[i] += units[slot][i] / (long double)(count);
    }
  }
  long double length = 0;
  for (long double value : mean) length += value * value;
  std::vector<float> scores(count);
  for (size_t slot = 0; slot < count; ++slot) {
    long double cosine = 0;
    for (size_t i = 0; i < dims; ++i) cosine += units[slot][i] * mean[i] / std::sqrt(length);
    scores[slot] = float(-cosine);
  }
  return scores;
}

TEST(KeyDiffPolicy, ScoresAreMinusTheCosineOfKeyAndMeanKey) {
  const auto policy = MakePolicy("keydiff").value();
  EXPECT_EQ(policy->observations(), Observations{.keys = true});
  for (int64_t length : {1, 2, 17, 300}) {
    const std::vector<int32_t> positions = Positions(length);
    const std::vector<float> scores = Scores(*policy, ViewOf(positions));
    const std::vector<float> expected = KeyDiffByHand(KeysOf(size_t(length)), size_t(kHeadDim));
    for (size_t slot = 0; slot < scores.size(); ++slot) EXPECT_NEAR(scores[slot], expected[slot], 1e-6) << length;
  }
}

TEST(KeyDiffPolicy, KeepsTheKeysThatPointElsewhere) {
  const auto policy = MakePolicy("keydiff").value();
  const std::vector<int32_t> positions = Positions(8);
  // Slots 2 and 5 point where no other key does; lengths do not matter.
  std::vector<float> keys(8 * kHeadDim, 0.0f);
  for (size_t slot = 0; slot < 8; ++slot) keys[slot * kHeadDim] = float(slot + 1);
  for (size_t slot : {2u, 5u}) {
    keys[slot * kHeadDim] = 0;
    keys[slot * kHeadDim + slot] = -100;
  }
  HeadView view = ViewOf(positions);
  view.keys = keys;
  EXPECT_THAT(Kept(*policy, view, 2, {}), testing::ElementsAre(2, 5));
}

TEST(KeyDiffPolicy, KeysWithoutDirectionOrThatAreNotFiniteHaveAFiniteScore) {
  const auto policy = MakePolicy("keydiff").value();
  const std::vector<int32_t> positions = Positions(4);
  std::vector<float> keys(4 * kHeadDim, 0.0f);
  HeadView view = ViewOf(positions);
  view.keys = keys;
  EXPECT_THAT(Scores(*policy, view), testing::Each(0.0f));
  keys[0] = 3;
  keys[kHeadDim] = std::numeric_limits<float>::quiet_NaN();
  keys[2 * kHeadDim] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Scores(*policy, view), testing::ElementsAre(-1.0f, 0.0f, 0.0f, 0.0f));
}

TEST(KeyDiffPolicy, HeadsDoNotShareAKeptSet) {
  const auto policy = MakePolicy("keydiff").value();
  EXPECT_TRUE(policy->SupportsScope(EvictionScope::kHead));
  EXPECT_FALSE(policy->SupportsScope(EvictionScope::kLayer));
  EXPECT_FALSE(policy->SupportsScope(EvictionScope::kSequence));
}

// snapkv and snapkv-prefill score alike and act at different times; the loop is the paper's average pooling (times 5).
TEST(SnapKvPolicy, BothFormsPoolAsAPlainLoopDoes) {
  EXPECT_EQ(MakePolicy("snapkv").value()->timing(), EvictionTiming::kChunked);
  EXPECT_EQ(MakePolicy("snapkv-prefill").value()->timing(), EvictionTiming::kAfterPrefill);
  for (int64_t length : {33, 34, 40, 300}) {
    const std::vector<int32_t> positions = Positions(length);
    const HeadView view = ViewOf(positions);
    std::vector<float> expected(positions.size(), 0.0f);
    const int64_t prefix = length - kProtection.recent_tokens;
    for (int64_t slot = 0; slot < prefix; ++slot) {
      int64_t sum = 0;
      for (int64_t neighbour = slot - 2; neighbour <= slot + 2; ++neighbour) {
        if (neighbour >= 0 && neighbour < prefix) sum += view.mass[size_t(neighbour)];
      }
      expected[size_t(slot)] = float(sum);
    }
    for (const char* name : {"snapkv", "snapkv-prefill"}) {
      EXPECT_EQ(Scores(*MakePolicy(name).value(), view), expected) << name << " " << length;
    }
  }
}

TEST(GoldenPolicy, ScoresByTheFutureAloneAndHeadsDoNotShareAKeptSet) {
  const auto policy = MakePolicy("golden").value();
  const std::vector<int32_t> positions = {0, 3, 4, 8};
  const std::vector<float> future = {0.25f, 0, 0.5f, 0.25f};
  HeadView view = ViewOf(positions);
  view.mass = {};
  view.keys = {};
  view.future = future;
  EXPECT_EQ(Scores(*policy, view), future);
  EXPECT_THAT(Kept(*policy, view, 2, {}), testing::ElementsAre(2, 3));
  EXPECT_TRUE(policy->observations().future);
  EXPECT_FALSE(policy->SupportsScope(EvictionScope::kLayer));
  EXPECT_FALSE(policy->SupportsScope(EvictionScope::kSequence));
}

TEST(KvZipPolicy, ScoresByTheReplayAloneAndAllHeadsCompeteWithoutAFloor) {
  for (const auto& [name, observed] :
       {std::pair{"kvzip", ObservedReplay::kAttention}, std::pair{"kvzip-plus", ObservedReplay::kUpdate}}) {
    const auto policy = MakePolicy(name).value();
    const std::vector<int32_t> positions = {0, 3, 4, 8};
    const std::vector<float> replay = {0.25f, 0, 0.5f, 0.25f};
    HeadView view = ViewOf(positions);
    view.mass = {};
    view.keys = {};
    view.replay = replay;
    EXPECT_EQ(Scores(*policy, view), replay);
    EXPECT_EQ(policy->observations(), Observations{.replay = observed});
    EXPECT_EQ(policy->timing(), EvictionTiming::kAfterPrefill);
    EXPECT_EQ(policy->allocation(), BudgetAllocation::kSequence);
    EXPECT_EQ(policy->FloorShare(), 0);
    EXPECT_FALSE(policy->SupportsScope(EvictionScope::kLayer));
    EXPECT_FALSE(policy->SupportsScope(EvictionScope::kSequence));
  }
}

TEST(RandomPolicy, WiderScopesDrawOnceForAllTheirHeads) {
  const auto policy = MakePolicy("random").value();
  const std::vector<int32_t> positions = Positions(100);
  HeadView layer = ViewOf(positions), other_layer = layer, all = layer;
  layer.global_head = other_layer.global_head = HeadView::kAllOfThem;
  other_layer.layer = 1;
  all.layer = all.global_head = HeadView::kAllOfThem;
  EXPECT_NE(Scores(*policy, layer), Scores(*policy, other_layer));
  EXPECT_NE(Scores(*policy, layer), Scores(*policy, all));
}

TEST(EvictionScope, NamesAreReadBackAndOthersRefused) {
  for (EvictionScope scope : {EvictionScope::kHead, EvictionScope::kLayer, EvictionScope::kSequence}) {
    EXPECT_EQ(ParseEvictionScope(Name(scope)).value(), scope);
  }
  EXPECT_THAT(ParseEvictionScope("heads").status().message(), HasSubstr("expected head, layer or sequence"));
}

}  // namespace
}  // namespace winnow
