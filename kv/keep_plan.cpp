#include "kv/keep_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace winnow {

std::vector<int32_t> SelectKept(std::span<const int32_t> positions, std::span<const float> scores, int64_t budget,
                                const Protection& protection) {
  WINNOW_CHECK(positions.size() == scores.size());
  const int64_t length = int64_t(positions.size());
  std::vector<int32_t> kept;
  if (length <= budget) {
    kept.resize(size_t(length));
    std::iota(kept.begin(), kept.end(), 0);
    return kept;
  }
  std::vector<int32_t> candidates;
  for (int64_t slot = 0; slot < length; ++slot) {
    const bool is_protected =
        positions[size_t(slot)] < protection.sink_tokens || slot >= length - protection.recent_tokens;
    if (!is_protected) WINNOW_CHECK(!std::isnan(scores[size_t(slot)]));
    (is_protected ? kept : candidates).push_back(int32_t(slot));
  }
  const int64_t num_chosen = budget - int64_t(kept.size());
  WINNOW_CHECK(num_chosen >= 0);
  // A strict order (a slot equals no other one), so the chosen set is the same for every library's nth_element.
  const auto goes_first = [&](int32_t a, int32_t b) {
    const float score_a = scores[size_t(a)], score_b = scores[size_t(b)];
    return score_a != score_b ? score_a > score_b : a > b;
  };
  std::nth_element(candidates.begin(), candidates.begin() + num_chosen, candidates.end(), goes_first);
  kept.insert(kept.end(), candidates.begin(), candidates.begin() + num_chosen);
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace winnow
