#include "dist/shard.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/philox.h"

namespace winnow {
namespace {

constexpr ShardDims kSmolLm2{
    .num_query_heads = 9, .num_kv_heads = 3, .head_dim = 64, .ffn_size = 1536, .vocab_size = 49152};

std::vector<int64_t> Sizes(const std::vector<Range>& ranges) {
  std::vector<int64_t> sizes;
  for (const Range& range : ranges) sizes.push_back(range.size());
  return sizes;
}

// Disjoint, complete, nobody empty, cut at multiples of `step` only.
void ExpectPartition(const std::vector<Range>& ranges, int num_ranks, int64_t total, int64_t step) {
  ASSERT_EQ(int(ranges.size()), num_ranks);
  EXPECT_EQ(ranges.front().begin, 0);
  EXPECT_EQ(ranges.back().end, total);
  for (int rank = 0; rank < num_ranks; ++rank) {
    EXPECT_GT(ranges[rank].size(), 0);
    EXPECT_EQ(ranges[rank].begin % step, 0);
    if (rank > 0) {
      EXPECT_EQ(ranges[rank].begin, ranges[rank - 1].end);
    }
  }
  const auto sizes = Sizes(ranges);
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  EXPECT_LT(*most - *least, 2 * step) << "shares differ by at most one part (and an incomplete last one)";
}

TEST(Shard, SplitsSmolLm2OverTwoRanksAsSixAndThreeQueryHeads) {
  const ShardPlan plan = MakeShardPlan(kSmolLm2, 2).value();
  EXPECT_EQ(plan.ffn_segment_columns, 128);
  EXPECT_EQ(plan.query_heads_per_kv_head, 3);
  EXPECT_EQ(Sizes(plan.kv_heads), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(plan.query_heads(0).size(), 6);
  EXPECT_EQ(plan.query_heads(1).begin, 6);
  EXPECT_EQ(plan.query_heads(1).end, 9);
  EXPECT_EQ(Sizes(plan.ffn_columns), (std::vector<int64_t>{768, 768}));
  EXPECT_EQ(Sizes(plan.vocab_rows), (std::vector<int64_t>{24576, 24576}));
}

TEST(Shard, SplitsSmolLm2OverOneAndThreeRanks) {
  const ShardPlan alone = MakeShardPlan(kSmolLm2, 1).value();
  EXPECT_EQ(Sizes(alone.kv_heads), (std::vector<int64_t>{3}));
  EXPECT_EQ(Sizes(alone.ffn_columns), (std::vector<int64_t>{1536}));
  const ShardPlan three = MakeShardPlan(kSmolLm2, 3).value();
  EXPECT_EQ(Sizes(three.kv_heads), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(Sizes(three.ffn_columns), (std::vector<int64_t>{512, 512, 512}));
  EXPECT_EQ(Sizes(three.vocab_rows), (std::vector<int64_t>{16384, 16384, 16384}));
}

// [rank] KV head and query heads.
using Heads = std::vector<std::vector<int64_t>>;
Heads HeadsOf(const ShardPlan& plan) {
  Heads heads;
  for (int rank = 0; rank < plan.num_ranks; ++rank) {
    EXPECT_EQ(plan.kv_heads[rank].size(), 1);
    auto& own = heads.emplace_back(1, plan.kv_heads[rank].begin);
    for (int64_t head = plan.query_heads(rank).begin; head < plan.query_heads(rank).end; ++head) own.push_back(head);
  }
  return heads;
}

TEST(Shard, WithMoreRanksThanKvHeadsReplicasDivideTheQueryHeads) {
  const auto heads = [](int ranks) { return HeadsOf(MakeShardPlan(kSmolLm2, ranks).value()); };
  EXPECT_EQ(heads(4), (Heads{{0, 0, 1}, {0, 2}, {1, 3, 4, 5}, {2, 6, 7, 8}}));
  EXPECT_EQ(heads(5), (Heads{{0, 0, 1}, {0, 2}, {1, 3, 4}, {1, 5}, {2, 6, 7, 8}}));
  EXPECT_EQ(heads(7), (Heads{{0, 0}, {0, 1}, {0, 2}, {1, 3, 4}, {1, 5}, {2, 6, 7}, {2, 8}}));
  EXPECT_EQ(heads(9), (Heads{{0, 0}, {0, 1}, {0, 2}, {1, 3}, {1, 4}, {1, 5}, {2, 6}, {2, 7}, {2, 8}}));
}

TEST(Shard, AHeadIsCountedOnTheFirstOfItsReplicas) {
  const auto firsts = [](int ranks) {
    const ShardPlan plan = MakeShardPlan(kSmolLm2, ranks).value();
    EXPECT_EQ(plan.has_replicas(), ranks > 3);
    std::vector<int> counted;
    for (int rank = 0; rank < ranks; ++rank) {
      if (plan.is_first_replica(rank)) counted.push_back(rank);
    }
    return counted;
  };
  EXPECT_EQ(firsts(1), (std::vector<int>{0}));
  EXPECT_EQ(firsts(3), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(firsts(4), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(firsts(5), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(firsts(9), (std::vector<int>{0, 3, 6}));
}

TEST(Shard, SegmentsDependOnTheModelAlone) {
  const auto columns = [](int64_t query_heads, int64_t ffn) {
    return FfnSegmentColumns(
        {.num_query_heads = query_heads, .num_kv_heads = 1, .head_dim = 64, .ffn_size = ffn, .vocab_size = 32});
  };
  EXPECT_EQ(columns(9, 1536), 128);
  EXPECT_EQ(columns(32, 14336), 256);
  EXPECT_EQ(columns(14, 4864), 256);  // 19 segments
  EXPECT_EQ(columns(14, 4992), 128);  // not a multiple of 256
  EXPECT_EQ(columns(64, 4096), 64);
  EXPECT_EQ(columns(100, 4096), 64);  // none gives enough
  EXPECT_EQ(columns(4, 192), 64);
}

TEST(Shard, TooManyRanksNamesTheValidCounts) {
  const auto plan = MakeShardPlan(kSmolLm2, 10);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(plan.status().message(), "10 ranks, but the model has 9 query heads: valid rank counts are 1 to 9");
}

TEST(Shard, RefusesNoRanks) {
  EXPECT_EQ(MakeShardPlan(kSmolLm2, 0).status().message(),
            "0 ranks, but the model has 9 query heads: valid rank counts are 1 to 9");
  EXPECT_EQ(MakeShardPlan(kSmolLm2, -1).status().code(), StatusCode::kInvalidArgument);
}

TEST(Shard, NamesTheLimitThatToyModelsHit) {
  ShardDims dims{.num_query_heads = 4, .num_kv_heads = 4, .head_dim = 32, .ffn_size = 128, .vocab_size = 320};
  EXPECT_EQ(MakeShardPlan(dims, 3).status().message(),
            "3 ranks, but the model has 2 FFN segments of 64 columns: valid rank counts are 1 to 2");
  dims.ffn_size = 512;
  dims.vocab_size = 16;
  EXPECT_EQ(MakeShardPlan(dims, 2).status().message(),
            "2 ranks, but the model has 1 tiles of 16 vocabulary rows: the only valid rank count is 1");
  dims.num_kv_heads = dims.num_query_heads = 1;
  EXPECT_EQ(MakeShardPlan(dims, 2).status().message(),
            "2 ranks, but the model has 1 query head: the only valid rank count is 1");
}

TEST(Shard, RefusesModelsThatCannotBeCut) {
  const auto message = [](auto change) {
    ShardDims dims = kSmolLm2;
    change(dims);
    const auto plan = MakeShardPlan(dims, 1);
    return plan.ok() ? std::string() : plan.status().message();
  };
  EXPECT_NE(message([](ShardDims& d) { d.num_kv_heads = 0; }), "");
  EXPECT_NE(message([](ShardDims& d) { d.num_query_heads = 0; }), "");
  EXPECT_NE(message([](ShardDims& d) { d.vocab_size = 0; }), "");
  EXPECT_NE(message([](ShardDims& d) { d.ffn_size = 0; }), "");
  EXPECT_EQ(message([](ShardDims& d) { d.num_query_heads = 10; }),
            "expected a multiple of 3 (KV heads) query heads, found 10");
  EXPECT_EQ(message([](ShardDims& d) { d.ffn_size = 1500; }),
            "expected an FFN size that is a multiple of 64, found 1500");
  // 2^20 * 2^36 * 128 fills an int64.
  EXPECT_NE(message([](ShardDims& d) { d.num_query_heads = 129; }).find("128 partial sums"), std::string::npos);
  EXPECT_EQ(message([](ShardDims& d) { d.ffn_size = 128 * 256; }), "");
}

TEST(Shard, SegmentsGrowWhereThereWouldBeMoreThan128) {
  const ShardDims qwen{
      .num_query_heads = 64, .num_kv_heads = 8, .head_dim = 128, .ffn_size = 29568, .vocab_size = 152064};
  EXPECT_EQ(FfnSegmentColumns(qwen), 384);  // 231 segments of 128 are too many: 77
  EXPECT_TRUE(MakeShardPlan(qwen, 64).ok());
  const ShardDims llama{
      .num_query_heads = 128, .num_kv_heads = 8, .head_dim = 128, .ffn_size = 53248, .vocab_size = 128256};
  EXPECT_EQ(FfnSegmentColumns(llama), 512);
  EXPECT_TRUE(MakeShardPlan(llama, 104).ok());
  EXPECT_EQ(MakeShardPlan(llama, 105).status().message(),
            "105 ranks, but the model has 104 FFN segments of 512 columns: valid rank counts are 1 to 104");
  ShardDims odd = llama;
  odd.ffn_size = 64 * 1009;  // a prime: the whole FFN is the only segment that is left
  EXPECT_EQ(FfnSegmentColumns(odd), 64 * 1009);
  EXPECT_TRUE(MakeShardPlan(odd, 1).ok());
  EXPECT_FALSE(MakeShardPlan(odd, 2).ok());
}

TEST(Shard, RanksWithFewerHeadsGetTheExtraSegments) {
  // 5 heads over 2 ranks: 3 and 2. 21 segments: 10 and 11.
  const ShardDims dims{
      .num_query_heads = 10, .num_kv_heads = 5, .head_dim = 64, .ffn_size = 21 * 256, .vocab_size = 1000};
  const ShardPlan plan = MakeShardPlan(dims, 2).value();
  EXPECT_EQ(Sizes(plan.kv_heads), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(Sizes(plan.ffn_columns), (std::vector<int64_t>{10 * 256, 11 * 256}));
}

// Every KV head is on neighbouring ranks, which hold all of its query heads, nobody none. No other plan gives the rank
// with most of them fewer.
void ExpectReplicas(const ShardPlan& plan, const ShardDims& dims) {
  const int64_t group = dims.num_query_heads / dims.num_kv_heads;
  int64_t most = 0, next_head = 0;
  for (int rank = 0; rank < plan.num_ranks; ++rank) {
    const Range queries = plan.query_heads(rank), kv = plan.kv_heads[rank];
    EXPECT_EQ(queries.begin, next_head);
    EXPECT_GT(queries.size(), 0);
    EXPECT_EQ(kv.size(), 1);
    EXPECT_EQ(queries.begin / group, kv.begin);
    EXPECT_EQ((queries.end - 1) / group, kv.begin);
    EXPECT_EQ(plan.is_first_replica(rank), queries.begin % group == 0);
    most = std::max(most, queries.size());
    next_head = queries.end;
  }
  EXPECT_EQ(next_head, dims.num_query_heads);
  // Some KV head has no more ranks than this.
  const int64_t fewest_ranks = plan.num_ranks / dims.num_kv_heads;
  EXPECT_EQ(most, (group + fewest_ranks - 1) / fewest_ranks);
}

TEST(Shard, EveryPlanOfRandomModelsIsAPartition) {
  for (uint32_t model = 0; model < 300; ++model) {
    const PhiloxBlock random = Philox(11, {model, 0, 0, 0});
    ShardDims dims;
    dims.num_kv_heads = 1 + random[0] % 16;
    dims.num_query_heads = dims.num_kv_heads * (1 + (random[0] >> 8) % 8);
    dims.head_dim = 64;
    // Exact sums have room for 128 query heads and segments; 17 of the latter are enough for all of these counts.
    dims.ffn_size = 64 * (17 + random[1] % 100);
    dims.vocab_size = 16 * 17 + random[2] % 5000;
    for (int num_ranks = 1; num_ranks <= 17; ++num_ranks) {
      SCOPED_TRACE(testing::Message() << "model " << model << ", " << num_ranks << " ranks");
      const auto made = MakeShardPlan(dims, num_ranks);
      if (num_ranks > dims.num_query_heads) {
        EXPECT_FALSE(made.ok());
        continue;
      }
      ASSERT_TRUE(made.ok()) << made.status().message();
      const ShardPlan& plan = made.value();
      EXPECT_EQ(plan.num_ranks, num_ranks);
      if (num_ranks <= dims.num_kv_heads) {
        ExpectPartition(plan.kv_heads, num_ranks, dims.num_kv_heads, 1);
      } else {
        ExpectReplicas(plan, dims);
      }
      ExpectPartition(plan.ffn_columns, num_ranks, dims.ffn_size, plan.ffn_segment_columns);
      ExpectPartition(plan.vocab_rows, num_ranks, dims.vocab_size, 16);
      EXPECT_EQ(plan.query_heads(num_ranks - 1).end, dims.num_query_heads);
      // The rank with most heads never has more segments than the one with fewest.
      EXPECT_LE(plan.ffn_columns.front().size(), plan.ffn_columns.back().size());
    }
  }
}

}  // namespace
}  // namespace winnow
