// --check-ranks: after every step, all ranks compare what must be the same on each of them, and stop with the rank and
// the step where it is not. One all-gather of 24 bytes a step. Collective.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "dist/communicator.h"

namespace winnow {

// Hashes of a rank's replicated state after a step.
struct RankState {
  uint64_t tokens = 0;       // sampled tokens of the step, in order
  uint64_t lengths = 0;      // tokens seen, slots held and evictions of every sequence
  uint64_t shared_kept = 0;  // kept positions of sets that heads of several ranks share
};

// InternalError naming the step, the first rank that differs from rank 0 and what differs; the same on all ranks.
Status CompareRanks(Communicator& communicator, int64_t step, const RankState& mine);

}  // namespace winnow
