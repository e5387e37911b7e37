// What every policy of the registry must do, then what those with little to say of themselves do alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "policies/eviction_policy.h"
#include "tests/policies/head_view.h"

namespace winnow {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

TEST(EvictionScope, NamesAreReadBackAndOthersRefused) {
  for (EvictionScope scope : {EvictionScope::kHead, EvictionScope::kLayer, EvictionScope::kSequence}) {
    EXPECT_EQ(ParseEvictionScope(Name(scope)).value(), scope);
  }
  EXPECT_THAT(ParseEvictionScope("heads").status().message(), HasSubstr("expected head, layer or sequence"));
}

}  // namespace
}  // namespace winnow
