// How a model is split over the ranks of one group: KV heads with their query heads, FFN segments, vocabulary rows.
// Shards may be uneven. With more ranks than KV heads each rank holds one of them, and those that hold the same one
// (its replicas) divide its query heads. Pure arithmetic, the same on every rank; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace winnow {

// The model's numbers that a split depends on.
struct ShardDims {
  int64_t num_query_heads;
  int64_t num_kv_heads;
  int64_t head_dim;
  int64_t ffn_size;
  int64_t vocab_size;
};

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Columns of one FFN segment, whose partial sums become integers (contract E1). Fixed by the model alone: the largest
// of 256, 128 and 64 that divides the FFN and gives at least one segment to every rank of the largest possible group
// (one rank per query head); 64 if none does. Where that makes more partial sums than an exact sum has room for (128;
// of the models that people run, Qwen2.5-72B and Llama-3.1-405B), the smallest multiple of 64 that divides the FFN and
// makes no more.
int64_t FfnSegmentColumns(const ShardDims& dims);

struct ShardPlan {
  int num_ranks = 1;
  std::vector<Range> kv_heads;           // [rank]; replicas have the same one
  std::vector<Range> query_head_ranges;  // [rank]: all of its KV heads, or a part of those of its only one
  std::vector<Range> ffn_columns;        // [rank], multiples of ffn_segment_columns
  std::vector<Range> vocab_rows;         // [rank], multiples of 16 but for the last end
  int64_t ffn_segment_columns = 0;
  int64_t query_heads_per_kv_head = 0;

  Range query_heads(int rank) const { return query_head_ranges[size_t(rank)]; }
  // Whether any KV head is on several ranks.
  bool has_replicas() const { return num_ranks > kv_heads.back().end; }
  // The first rank of those that hold the same KV heads: where these are counted.
  bool is_first_replica(int rank) const {
    return rank == 0 || kv_heads[size_t(rank)].begin != kv_heads[size_t(rank) - 1].begin;
  }
};

// Splits as evenly as it goes, attention and FFN each for itself (every all-reduce is a barrier, so one phase cannot
// make up for the other); where the FFN does not divide, the last ranks get the extra segments, the first ones having
// the extra heads. InvalidArgument naming the valid counts if there are more ranks than query heads.
Result<ShardPlan> MakeShardPlan(const ShardDims& dims, int num_ranks);

}  // namespace winnow
