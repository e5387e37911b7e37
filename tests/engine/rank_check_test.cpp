#include "engine/rank_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace winnow {
namespace {

using testing::HasSubstr;

// One status per rank.
std::vector<Status> Compare(const std::vector<RankState>& states) {
  std::vector<Status> results(states.size());
  RunThreadRanks(int(states.size()), [&](Communicator& communicator) {
    const size_t rank = size_t(communicator.rank());
    results[rank] = CompareRanks(communicator, 12, states[rank]);
    if (communicator.size() > 1) {
      EXPECT_EQ(communicator.counters().payload_bytes, 40);
    }
  });
  return results;
}

void ExpectMessage(const std::vector<RankState>& states, const std::string& message) {
  for (const Status& status : Compare(states)) {
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_EQ(status.message(), message);
  }
}

constexpr RankState kState{.tokens = 1, .lengths = 2, .shared_kept = 3};
constexpr RankState kOtherTokens{.tokens = 9, .lengths = 2, .shared_kept = 3};
constexpr RankState kOtherLengths{.tokens = 1, .lengths = 9, .shared_kept = 3};
constexpr RankState kOtherKept{.tokens = 1, .lengths = 2, .shared_kept = 9};

TEST(CompareRanks, EqualStatesPass) {
  for (size_t ranks : {1u, 2u, 5u}) {
    for (const Status& status : Compare(std::vector<RankState>(ranks, kState))) EXPECT_TRUE(status.ok());
  }
}

TEST(CompareRanks, EveryRankLearnsWhichRankDiffersAndInWhat) {
  ExpectMessage({kState, kState, kOtherTokens},
                "ranks disagree at step 12: the sampled tokens of rank 2 differ from those of rank 0");
  ExpectMessage({kState, kOtherLengths},
                "ranks disagree at step 12: the cache lengths of rank 1 differ from those of rank 0");
  ExpectMessage({kState, kOtherKept, kState},
                "ranks disagree at step 12: the kept sets of rank 1 differ from those of rank 0");
}

// Ranks 0 and 1, and 2 and 3, hold the same KV head.
TEST(CompareRanks, KeptSetsOfHeadsAreComparedAmongThoseWhoHoldThem) {
  const auto of_head = [](int64_t head, uint64_t kept) {
    RankState state = kState;
    state.first_kv_head = head;
    state.own_kept = kept;
    return state;
  };
  for (const Status& status : Compare({of_head(0, 5), of_head(0, 5), of_head(1, 6), of_head(1, 6)})) {
    EXPECT_TRUE(status.ok());
  }
  ExpectMessage({of_head(0, 5), of_head(0, 5), of_head(1, 6), of_head(1, 5)},
                "ranks disagree at step 12: the kept sets of the same KV heads of rank 3 differ from those of rank 2");
}

TEST(CompareRanks, NamesTheFirstOfSeveral) {
  ExpectMessage({kState, kState, kOtherKept, kOtherTokens},
                "ranks disagree at step 12: the kept sets of rank 2 differ from those of rank 0");
  // If it is rank 0 that is wrong, the first other rank is named.
  ExpectMessage({kOtherTokens, kState, kState},
                "ranks disagree at step 12: the sampled tokens of rank 1 differ from those of rank 0");
}

}  // namespace
}  // namespace winnow
