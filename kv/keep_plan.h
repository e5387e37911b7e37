// Which slots of each head survive an eviction, and the one selection rule that makes such lists from scores. Any
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

// kept[layer * num_kv_heads + local head]: ascending slots that stay.
struct KeepPlan {
  std::vector<std::vector<int32_t>> kept;
};

// Slots taken out before selection: pinned ones, and the first and newest tokens of the text.
struct Protection {
  int64_t sink_tokens = 0;                         // first tokens of the text, evicted ones counted
  int64_t recent_tokens = 0;                       // last slots of the text
  std::span<const int32_t> pinned_positions = {};  // ascending; no token of the text
};

// [length] 1: protected. positions [length], ascending.
std::vector<uint8_t> ProtectedSlots(std::span<const int32_t> positions, const Protection& protection);

// The first slot of the recent tokens; pinned slots may lie behind it. The length if there is none.
int64_t RecentBegin(std::span<const int32_t> positions, const Protection& protection);

// Ascending slots: all protected ones, and of the others the `budget - protected` with the highest score. Ties: the
// higher position wins (positions ascend with the slot). Scores must not be NaN. If length <= budget, everything is
// kept. positions and scores: [length]. budget >= number of protected slots.
std::vector<int32_t> SelectKept(std::span<const int32_t> positions, std::span<const float> scores, int64_t budget,
                                const Protection& protection);

}  // namespace winnow
