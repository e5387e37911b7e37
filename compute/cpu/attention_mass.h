// Attention mass of observed rows: weights of slots become integer steps, which are summed over a tile's queries before
// they reach the pool. Sums of integers have no order, so neither tiles nor threads can change a result.
#pragma once

#include <algorithm>
#include <atomic>

#include "compute/cpu/kernels.h"

namespace winnow::cpu {

// One observed query that sees the block.
struct MassQuery {
  const float* weights;  // [128], valid up to the page of the last visible slot, 0 beyond that slot
  float steps;           // of a weight of 1
  int64_t num_slots;
};

// Steps of 16 slots, summed over queries.
template <class L>
typename L::Int64 SumSteps(const MassQuery* queries, int64_t count, int64_t slot) {
  const auto steps = [&](const MassQuery& query) {
    return L::ToInt(L::Mul(L::Load(query.weights + slot), L::Set(query.steps)));
  };
  auto sum = L::ZeroInt64();
  int64_t i = 0;
  // A query has at most 2^30 steps, so three fit into 32 bits without sign and are widened once.
  for (; i + 3 <= count; i += 3) {
    sum = L::AddUnsigned(sum,
                         L::AddModulo(L::AddModulo(steps(queries[i]), steps(queries[i + 1])), steps(queries[i + 2])));
  }
  for (; i < count; ++i) sum = L::AddUnsigned(sum, steps(queries[i]));
  return sum;
}

template <class L>
void AddMass(const AttentionJob& job, const AttentionTile& tile, int64_t block, const float* partials) {
  const int64_t head_dim = job.kv.head_dim, num_queries = tile.num_queries();
  const float* own = partials + block * BlockFloats(tile, head_dim);
  const float* weights = own + num_queries * PartialFloats(head_dim);
  MassQuery queries[kMaxTileQueries];
  int64_t count = 0;
  for (int64_t i = 0; i < num_queries; ++i) {
    const int64_t num_slots =
        std::min(tile.Visible(i / tile.heads) - block * kAttentionBlockSlots, kAttentionBlockSlots);
    const int64_t partial = i * PartialFloats(head_dim);
    const float reciprocal = partials[partial + ReciprocalOffset(head_dim)];
    // The largest weight is 1, so the sum is at least 1, unless infinite scores have made all weights 0. NaN fails too.
    if (num_slots <= 0 || !tile.Observed(i / tile.heads) || !(reciprocal <= 1)) continue;
    queries[count++] = {weights + i * kAttentionBlockSlots,
                        kMassSteps * own[partial + MaximumOffset(head_dim)] * reciprocal, num_slots};
  }
  const int32_t* pages = tile.pages + block * (kAttentionBlockSlots / kPageSlots);
  for (int64_t first = 0, slot = 0; slot < kAttentionBlockSlots; slot += kPageSlots) {
    while (first < count && queries[first].num_slots <= slot) ++first;  // counts rise from row to row
    if (first == count) return;
    auto sum = SumSteps<L>(queries + first, count - first, slot);
    int64_t* mass = job.mass + pages[slot / kPageSlots] * kPageSlots;
    if (job.one_thread || tile.alone) {
      L::Store(mass, L::AddInt64(sum, L::LoadInt64(mass)));
      continue;
    }
    alignas(64) int64_t steps[kPageSlots];
    L::Store(steps, sum);
    for (int64_t i = 0; i < kPageSlots; ++i) {
      std::atomic_ref<int64_t>(mass[i]).fetch_add(steps[i], std::memory_order_relaxed);
    }
  }
}

}  // namespace winnow::cpu
