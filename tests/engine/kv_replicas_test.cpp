// Statistics of query heads that are on several ranks, against those of one rank that has all of them.
#include "engine/kv_replicas.h"

#include <gtest/gtest.h>

#include <numeric>

namespace winnow {
namespace {

constexpr int64_t kLayers = 2, kGroup = 3, kDim = 2, kLength = 4, kRows = 2;

// Two KV heads of three query heads.
ShardPlan Plan(int num_ranks) {
  return MakeShardPlan({.num_query_heads = 6, .num_kv_heads = 2, .head_dim = 32, .ffn_size = 384, .vocab_size = 512},
                       num_ranks)
      .value();
}

// Distinct numbers of query head `head` (of the model) in a layer.
int64_t Number(int64_t layer, int64_t head, int64_t index) {
  return 1000 * layer + 100 * head + index + 1;
}

// What the query heads `heads` of one KV head have seen in all layers.
GroupStatistics Seen(Range heads) {
  GroupStatistics seen;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    auto& mass = seen.mass.emplace_back(size_t(kLength), 0);
    auto& queries = seen.queries.emplace_back();
    auto& sums = seen.query_sums.emplace_back();
    for (int64_t head = heads.begin; head < heads.end; ++head) {
      for (int64_t slot = 0; slot < kLength; ++slot) mass[size_t(slot)] += Number(layer, head, slot);
    }
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t head = heads.begin; head < heads.end; ++head) {
        for (int64_t i = 0; i < kDim; ++i) queries.push_back(-float(Number(layer, head, row * kDim + i)) / 3);
      }
    }
    for (int64_t size : {kDim, kDim * kDim}) {
      for (int64_t head = heads.begin; head < heads.end; ++head) {
        for (int64_t i = 0; i < size; ++i) sums.push_back(double(Number(layer, head, 10 * size + i)) / 7);
      }
    }
  }
  return seen;
}

void ExpectSame(const GroupStatistics& got, const GroupStatistics& want) {
  EXPECT_EQ(got.mass, want.mass);
  EXPECT_EQ(got.queries, want.queries);
  EXPECT_EQ(got.query_sums, want.query_sums);
}

Range GroupOf(const ShardPlan& plan, int rank) {
  const int64_t head = plan.kv_heads[size_t(rank)].begin;
  return {head * kGroup, (head + 1) * kGroup};
}

TEST(KvReplicas, PutTogetherWhatOneRankWouldHaveSeen) {
  for (int num_ranks : {3, 4, 5, 6}) {
    const ShardPlan plan = Plan(num_ranks);
    RunThreadRanks(num_ranks, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      KvReplicas replicas(communicator, plan);
      ASSERT_TRUE(replicas.exist());
      EXPECT_EQ(replicas.is_first(), plan.query_heads(rank).begin % kGroup == 0);
      // Two sequences, one of which has been asked for its queries alone.
      std::vector<GroupStatistics> parts(2, Seen(plan.query_heads(rank)));
      parts[1].mass.clear();
      parts[1].query_sums.clear();
      replicas.Complete(parts, kDim);
      GroupStatistics want = Seen(GroupOf(plan, rank));
      ExpectSame(parts[0], want);
      want.mass.clear();
      want.query_sums.clear();
      ExpectSame(parts[1], want);
      std::vector<float> peaks = {float(rank), 7.0f, -float(rank)};
      replicas.TakeMax(peaks);
      int last = rank, first = rank;
      while (last + 1 < num_ranks && GroupOf(plan, last + 1).begin == GroupOf(plan, rank).begin) ++last;
      while (!plan.is_first_replica(first)) --first;
      EXPECT_EQ(peaks, (std::vector<float>{float(last), 7.0f, -float(first)}));
      EXPECT_EQ(replicas.counters().calls, last > first ? 4 : 0);
      EXPECT_EQ(communicator.counters().calls, 0);
    });
  }
}

TEST(KvReplicas, WithoutReplicasNothingHappens) {
  for (int num_ranks : {1, 2}) {
    const ShardPlan plan = Plan(num_ranks);
    RunThreadRanks(num_ranks, [&](Communicator& communicator) {
      KvReplicas replicas(communicator, plan);
      EXPECT_FALSE(replicas.exist());
      EXPECT_TRUE(replicas.is_first());
      GroupStatistics part = Seen({0, 3});
      replicas.Complete({&part, 1}, kDim);
      ExpectSame(part, Seen({0, 3}));
      EXPECT_EQ(replicas.counters().calls, 0);
    });
  }
}

// The parts of a saved text, taken by some ranks and put together again.
TEST(KvReplicas, PartsOfASnapshotAreTheSnapshot) {
  SequenceSnapshot whole;
  whole.head_dim = kDim;
  whole.num_layers = kLayers;
  whole.num_kv_heads = 2;
  whole.tokens_seen = 9;
  whole.evictions = 1;
  whole.query_rows = kRows;
  whole.query_group = kGroup;
  const GroupStatistics seen[] = {Seen({0, 3}), Seen({3, 6})};
  for (size_t layer = 0; layer < size_t(kLayers); ++layer) {
    for (const GroupStatistics& of_head : seen) {
      HeadSnapshot head{.positions = {1, 2, 5, 8}, .keys = {}, .values = {}, .mass = {}, .queries = {}};
      head.mass = of_head.mass[layer];
      head.queries = of_head.queries[layer];
      whole.heads.push_back(head);
    }
  }
  const ShardPlan plan = Plan(5);
  std::vector<SequenceSnapshot> counted(2);
  RunThreadRanks(5, [&](Communicator& communicator) {
    KvReplicas replicas(communicator, plan);
    SequenceSnapshot part = replicas.PartOf(whole);
    EXPECT_EQ(part.query_group, plan.query_heads(communicator.rank()).size());
    EXPECT_EQ(part.first_kv_head, plan.kv_heads[size_t(communicator.rank())].begin);
    const int64_t mass = std::accumulate(part.heads[0].mass.begin(), part.heads[0].mass.end(), int64_t(0));
    EXPECT_EQ(mass > 0, replicas.is_first()) << "counted once";
    replicas.Complete(&part);
    if (replicas.is_first()) counted[size_t(part.first_kv_head)] = part;
  });
  EXPECT_EQ(MergeSnapshots(counted), whole);
}

}  // namespace
}  // namespace winnow
