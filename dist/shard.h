// How a model is split over the ranks of one group: KV heads with their query heads, FFN segments, vocabulary rows.
// Shards may be uneven. Pure arithmetic, the same on every rank; any thread.
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
// (one rank per query head, once KV heads can be replicated); 64 if none does.
int64_t FfnSegmentColumns(const ShardDims& dims);

struct ShardPlan {
  int num_ranks = 1;
  std::vector<Range> kv_heads;     // [rank]
  std::vector<Range> ffn_columns;  // [rank], multiples of ffn_segment_columns
  std::vector<Range> vocab_rows;   // [rank], multiples of 16 but for the last end
  int64_t ffn_segment_columns = 0;
  int64_t query_heads_per_kv_head = 0;

  Range query_heads(int rank) const {
    return {kv_heads[rank].begin * query_heads_per_kv_head, kv_heads[rank].end * query_heads_per_kv_head};
  }
};

// Splits as evenly as it goes, attention and FFN each for itself (every all-reduce is a barrier, so one phase cannot
// make up for the other); where the FFN does not divide, the ranks with fewer heads get the extra segment.
// InvalidArgument naming the valid counts if there are more ranks than KV heads.
Result<ShardPlan> MakeShardPlan(const ShardDims& dims, int num_ranks);

}  // namespace winnow
