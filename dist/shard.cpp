#include "dist/shard.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "dist/exact_sum.h"

namespace winnow {
namespace {

constexpr int64_t kSmallestSegment = 64;
constexpr int64_t kVocabTileRows = 16;  // a packed weight tile; cut nowhere else
// How many partial sums an int64 takes: 2^63 / (2^20 * 2^36) = 128.
constexpr int64_t kMaxPartials = int64_t(0x1p63 / (double(kHiddenFixedPoint.limit) * kHiddenFixedPoint.steps_per_unit));

// `count` parts over the ranks; the extras go to the first ranks or to the last ones.
enum class Extras { kFirstRanks, kLastRanks };
std::vector<Range> SplitEvenly(int64_t count, int num_ranks, Extras extras) {
  const int64_t share = count / num_ranks, num_extras = count % num_ranks;
  std::vector<Range> ranges;
  for (int64_t rank = 0, begin = 0; rank < num_ranks; ++rank) {
    const int64_t place = extras == Extras::kFirstRanks ? rank : num_ranks - 1 - rank;
    const int64_t end = begin + share + (place < num_extras ? 1 : 0);
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

std::string ValidCounts(int64_t largest) {
  if (largest == 1) return "the only valid rank count is 1";
  return "valid rank counts are 1 to " + std::to_string(largest);
}

// With at most as many ranks as KV heads these are split. With more, the ranks are split over the KV heads, and the
// query heads of each over its ranks: evenly, so that the most query heads on a rank are as few as can be.
void SplitHeads(const ShardDims& dims, ShardPlan* plan) {
  const int64_t group = dims.num_query_heads / dims.num_kv_heads;
  plan->query_heads_per_kv_head = group;
  if (plan->num_ranks <= dims.num_kv_heads) {
    plan->kv_heads = SplitEvenly(dims.num_kv_heads, plan->num_ranks, Extras::kFirstRanks);
    for (const Range& heads : plan->kv_heads) {
      plan->query_head_ranges.push_back({heads.begin * group, heads.end * group});
    }
    return;
  }
  const auto replicas = SplitEvenly(plan->num_ranks, int(dims.num_kv_heads), Extras::kFirstRanks);
  for (int64_t head = 0; head < dims.num_kv_heads; ++head) {
    for (const Range& queries : SplitEvenly(group, int(replicas[size_t(head)].size()), Extras::kFirstRanks)) {
      plan->kv_heads.push_back({head, head + 1});
      plan->query_head_ranges.push_back({head * group + queries.begin, head * group + queries.end});
    }
  }
}

Status CheckDims(const ShardDims& dims) {
  if (dims.num_kv_heads <= 0 || dims.num_query_heads <= 0 || dims.head_dim <= 0 || dims.vocab_size <= 0) {
    return InvalidArgument("expected a model with at least one head and one token, found " +
                           std::to_string(dims.num_query_heads) + " query heads, " + std::to_string(dims.num_kv_heads) +
                           " KV heads of " + std::to_string(dims.head_dim) + ", vocabulary " +
                           std::to_string(dims.vocab_size));
  }
  if (dims.num_query_heads % dims.num_kv_heads != 0) {
    return InvalidArgument("expected a multiple of " + std::to_string(dims.num_kv_heads) +
                           " (KV heads) query heads, found " + std::to_string(dims.num_query_heads));
  }
  if (dims.ffn_size <= 0 || dims.ffn_size % kSmallestSegment != 0) {
    return InvalidArgument("expected an FFN size that is a multiple of " + std::to_string(kSmallestSegment) +
                           ", found " + std::to_string(dims.ffn_size));
  }
  const int64_t num_partials = std::max(dims.num_query_heads, dims.ffn_size / FfnSegmentColumns(dims));
  if (num_partials > kMaxPartials) {
    return InvalidArgument("exact sums have room for " + std::to_string(kMaxPartials) +
                           " partial sums, this model needs " + std::to_string(num_partials) + " (" +
                           std::to_string(dims.num_query_heads) + " query heads, FFN " + std::to_string(dims.ffn_size) +
                           ")");
  }
  return OkStatus();
}

}  // namespace

int64_t FfnSegmentColumns(const ShardDims& dims) {
  WINNOW_CHECK(dims.ffn_size > 0 && dims.ffn_size % kSmallestSegment == 0);
  int64_t columns = 256;
  while (columns > kSmallestSegment &&
         (dims.ffn_size % columns != 0 || dims.ffn_size / columns < dims.num_query_heads)) {
    columns /= 2;
  }
  while (dims.ffn_size % columns != 0 || dims.ffn_size / columns > kMaxPartials) columns += kSmallestSegment;
  return columns;
}

Result<ShardPlan> MakeShardPlan(const ShardDims& dims, int num_ranks) {
  WINNOW_RETURN_IF_ERROR(CheckDims(dims));
  const int64_t segment_columns = FfnSegmentColumns(dims);
  const int64_t num_segments = dims.ffn_size / segment_columns;
  const int64_t num_vocab_tiles = (dims.vocab_size + kVocabTileRows - 1) / kVocabTileRows;

  const int64_t largest = std::min({dims.num_query_heads, num_segments, num_vocab_tiles});
  if (num_ranks < 1 || num_ranks > largest) {
    std::string found =
        std::to_string(dims.num_query_heads) + (dims.num_query_heads == 1 ? " query head" : " query heads");
    // Only toy models have fewer segments or tiles than query heads.
    if (largest == num_segments && largest < dims.num_query_heads) {
      found = std::to_string(num_segments) + " FFN segments of " + std::to_string(segment_columns) + " columns";
    } else if (largest < dims.num_query_heads) {
      found = std::to_string(num_vocab_tiles) + " tiles of " + std::to_string(kVocabTileRows) + " vocabulary rows";
    }
    return InvalidArgument(std::to_string(num_ranks) + " ranks, but the model has " + found + ": " +
                           ValidCounts(largest));
  }

  ShardPlan plan;
  plan.num_ranks = num_ranks;
  plan.ffn_segment_columns = segment_columns;
  // The first ranks hold the extra heads, the last ones the extra segments and tiles.
  SplitHeads(dims, &plan);
  plan.ffn_columns = SplitEvenly(num_segments, num_ranks, Extras::kLastRanks);
  for (Range& range : plan.ffn_columns) range = {range.begin * segment_columns, range.end * segment_columns};
  plan.vocab_rows = SplitEvenly(num_vocab_tiles, num_ranks, Extras::kLastRanks);
  for (Range& range : plan.vocab_rows) {
    range = {range.begin * kVocabTileRows, std::min(range.end * kVocabTileRows, dims.vocab_size)};
  }
  return plan;
}

}  // namespace winnow
