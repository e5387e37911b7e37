// Selection where heads compete for a common budget: those of a layer, or of the whole sequence. What the ranks keep
// together is the best of all their candidates (dist/exact_select.h), so the kept sets are the same for any rank count,
// and heads come out of different length. Engine thread; collective.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dist/communicator.h"
#include "kv/keep_plan.h"

namespace winnow {

// One KV head's slots. At most 2^24 heads of a sequence, over layers and ranks.
struct PooledHead {
  int64_t layer = 0;
  int64_t global_head = 0;
  std::span<const int32_t> positions;  // [length] ascending
  std::vector<float> scores;           // [length], not NaN where not protected
  std::vector<uint8_t> is_protected;   // [length] kept whatever the scores are
  int64_t floor = 0;                   // this many of its best candidates are kept before heads compete
};

// Heads that share a budget, on all ranks together.
struct Pool {
  std::vector<PooledHead> heads;  // this rank's
  int64_t num_kv_heads = 0;       // of a layer, over all ranks
  int64_t candidates_kept = 0;    // entries that are kept beside the protected ones; the same on all ranks
};

// Ascending slots that each head keeps: [pool][head]. Of equal scores the higher position is kept, then the lower
// layer, then the lower head. One batch of collectives for all pools. Every head competes once: where several ranks
// hold it, is_counted on one of them alone.
std::vector<std::vector<std::vector<int32_t>>> SelectPooled(Communicator& communicator, std::span<const Pool> pools,
                                                            bool is_counted = true);

}  // namespace winnow
