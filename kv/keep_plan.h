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

// Slots taken out before selection: the first `sinks` positions of the text and the newest `recent` slots.
struct Protection {
  int64_t sink_tokens = 0;    // slots whose position is < sink_tokens
  int64_t recent_tokens = 0;  // the last slots
};

// Ascending slots: all protected ones, and of the others the `budget - protected` with the highest score. Ties: the
// higher position wins (positions ascend with the slot). Scores must not be NaN. If length <= budget, everything is
// kept. positions and scores: [length]. budget >= number of protected slots.
std::vector<int32_t> SelectKept(std::span<const int32_t> positions, std::span<const float> scores, int64_t budget,
                                const Protection& protection);

}  // namespace winnow
