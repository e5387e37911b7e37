// Mean and covariance of a head's queries as they are before they are rotated, from an observation window or from sums
// over a whole prompt, and the quadratic form that they make of a key. For policies that ask what queries like these
// would look at. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/eviction_policy.h"
#include "policies/slot_dots.h"

namespace winnow {

// Sizes of heads are padded with zeros to a multiple of 16, so that loops run over whole vectors.
constexpr int64_t PaddedHeadDim(int64_t head_dim) {
  return (head_dim + 15) / 16 * 16;
}

// Of the query heads of one KV head; queries are scaled by 1 / sqrt(head_dim), as attention uses them.
struct QueryStatistics {
  int64_t group = 0;
  int64_t dims = 0;         // padded
  std::vector<float> mean;  // [group][dims]
  // [group][dims][dims]: half the variance on the diagonal, the covariance (divided by the count) above it, 0 below, so
  // that k' form k = k' covariance k / 2.
  std::vector<float> form;
};

// From head.query_moments, or from head.queries if there are none, without queries at positions before first_position.
// All zeros if no query is left. Sums run over queries in their order.
QueryStatistics StatisticsOf(const HeadView& head, int64_t first_position);

// [keys.padded_slots()] mean . k + k' form k of query head `query`, for keys of padded dims; 0 for slots of padding.
std::vector<float> ExpectedLogits(const QueryStatistics& statistics, int64_t query, const SlotTiles& keys);

}  // namespace winnow
