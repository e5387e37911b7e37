#include "kv/budget.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace winnow {

KvBudget DivideEntries(int64_t total_entries, const KvShape& shape, int64_t heads_per_set) {
  WINNOW_CHECK(total_entries >= 0 && shape.num_heads() > 0);
  WINNOW_CHECK(heads_per_set > 0 && shape.num_heads() % heads_per_set == 0);
  const int64_t left_over = total_entries % shape.num_heads();
  return {.tokens = total_entries / shape.num_heads(),
          .larger_heads = left_over - left_over % heads_per_set,
          .num_kv_heads = shape.num_kv_heads};
}

int64_t EntriesInBytes(int64_t bytes, const KvShape& shape) {
  WINNOW_CHECK(bytes >= 0 && shape.entry_bytes > 0);
  return bytes / shape.entry_bytes;
}

int64_t EntriesInRatio(double ratio, int64_t num_tokens, const KvShape& shape) {
  WINNOW_CHECK(ratio > 0 && ratio <= 1 && num_tokens >= 0);
  const int64_t full = num_tokens * shape.num_heads();
  // Far above the rounding of a product of 10^12 entries (2^-13 of one), far below what anybody would miss.
  constexpr double kTolerance = 1e-3;
  return std::min(full, int64_t(std::floor(ratio * double(full) + kTolerance)));
}

}  // namespace winnow
