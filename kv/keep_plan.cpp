#include "kv/keep_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace winnow {

int64_t RecentBegin(std::span<const int32_t> positions, const Protection& protection) {
  const std::span<const int32_t> pinned = protection.pinned_positions;
  int64_t begin = int64_t(positions.size());
  size_t pinned_left = pinned.size();
  for (int64_t found = 0; begin > 0 && found < protection.recent_tokens;) {
    --begin;
    while (pinned_left > 0 && pinned[pinned_left - 1] > positions[size_t(begin)]) --pinned_left;
    const bool is_pinned = pinned_left > 0 && pinned[pinned_left - 1] == positions[size_t(begin)];
    found += !is_pinned;
  }
  return begin;
}

std::vector<uint8_t> ProtectedSlots(std::span<const int32_t> positions, const Protection& protection) {
  const std::span<const int32_t> pinned = protection.pinned_positions;
  const size_t recent_begin = size_t(RecentBegin(positions, protection));
  std::vector<uint8_t> is_protected(positions.size(), 0);
  size_t pinned_before = 0;  // positions below the slot's that are no text
  for (size_t slot = 0; slot < positions.size(); ++slot) {
    while (pinned_before < pinned.size() && pinned[pinned_before] < positions[slot]) ++pinned_before;
    const bool is_pinned = pinned_before < pinned.size() && pinned[pinned_before] == positions[slot];
    const int64_t token = positions[slot] - int64_t(pinned_before);
    is_protected[slot] = is_pinned || token < protection.sink_tokens || slot >= recent_begin;
  }
  return is_protected;
}

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
  const std::vector<uint8_t> is_protected = ProtectedSlots(positions, protection);
  std::vector<int32_t> candidates;
  for (size_t slot = 0; slot < positions.size(); ++slot) {
    if (!is_protected[slot]) WINNOW_CHECK(!std::isnan(scores[slot]));
    (is_protected[slot] ? kept : candidates).push_back(int32_t(slot));
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
