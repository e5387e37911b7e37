// Exact distributed selection: the smallest set of the highest keys, over all ranks, whose weights reach a target. By
// integer histograms over the digits of the key (docs/contracts.md), so the result is the same for any rank count.
// Serves top-k (weight 1, target k) and top-p (weight = probability mass). Collective; engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dist/communicator.h"

namespace winnow {

// An order-preserving integer form of a float that is not NaN: a < b gives OrderedKey(a) < OrderedKey(b); -0 equals +0.
uint32_t OrderedKey(float value);

// This rank's part of one selection. Entries with equal keys must have equal weights (over all ranks); weights >= 0.
// Global order: higher key first, then lower rank, then lower index; ranks hold consecutive parts of the whole.
struct SelectProblem {
  std::span<const uint32_t> keys;
  std::span<const int64_t> weights;  // empty: every weight is 1
  int64_t target = 0;                // the same on all ranks; everything is kept if the total is not above it
};

// Keep entries with key > threshold, and the first `ties_to_keep` of this rank's entries with key == threshold.
struct SelectResult {
  uint32_t threshold = 0;
  int64_t ties_to_keep = 0;
};

// Solves all problems together: 4 all-reduces of 2,048 bytes a problem and one all-gather of 8 bytes a problem.
std::vector<SelectResult> ExactSelect(Communicator& communicator, std::span<const SelectProblem> problems);

}  // namespace winnow
