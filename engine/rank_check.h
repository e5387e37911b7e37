// --check-ranks: after every step, all ranks compare what must be the same on each of them, or on the replicas of a KV
// head, and stop with the rank and the step where it is not. One all-gather of 40 bytes a step. Collective.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "dist/communicator.h"

namespace winnow {

// Hashes of a rank's replicated state after a step.
struct RankState {
  int64_t first_kv_head = 0;  // ranks with the same one hold the same KV heads
  uint64_t tokens = 0;        // sampled tokens of the step, in order
  uint64_t lengths = 0;       // tokens seen, slots held and evictions of every sequence
  uint64_t shared_kept = 0;   // kept positions of sets that heads of several ranks share
  uint64_t own_kept = 0;      // kept positions of this rank's heads; 0 if it does not hold them with others
};

// InternalError naming the step, the first rank that differs from rank 0, or from the first with the same KV heads, and
// what differs; the same on all ranks.
Status CompareRanks(Communicator& communicator, int64_t step, const RankState& mine);

}  // namespace winnow
