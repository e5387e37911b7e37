// The most weight that any query gives to a slot (AttentionArgs::peaks). A maximum has no order, so neither tiles nor
// threads can change a result. Kernels of any thread, on tiles of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>

#include "compute/cpu/kernels.h"

namespace winnow::cpu {

// One query that sees the block.
struct PeakQuery {
  const float* weights;  // [128], valid up to the page of the last visible slot, 0 beyond that slot
  float scale;           // of a weight of 1
  int64_t num_slots;
};

// 16 peaks that other threads may raise at the same time. Peaks are 0 or more: their bits are ordered as they are.
inline void RaiseShared(float* peaks, const float* raised) {
  for (int64_t i = 0; i < kPageSlots; ++i) {
    std::atomic_ref<int32_t> peak(reinterpret_cast<int32_t*>(peaks)[i]);
    const int32_t mine = std::bit_cast<int32_t>(raised[i]);
    int32_t now = peak.load(std::memory_order_relaxed);
    while (mine > now && !peak.compare_exchange_weak(now, mine, std::memory_order_relaxed)) {
    }
  }
}

template <class L>
void RaisePeaks(const AttentionJob& job, const AttentionTile& tile, int64_t block, const float* partials) {
  const int64_t head_dim = job.kv.head_dim, first_slot = block * kAttentionBlockSlots;
  const float* own = partials + block * BlockFloats(tile, head_dim);
  const float* weights = own + tile.num_queries() * PartialFloats(head_dim);
  for (int64_t head = 0; head < tile.heads; ++head) {
    PeakQuery queries[kMaxTileQueries];
    int64_t count = 0, most = 0;
    for (int64_t r = 0; r < tile.rows; ++r) {
      const int64_t i = r * tile.heads + head, partial = i * PartialFloats(head_dim);
      const int64_t num_slots = std::min(tile.Visible(r) - first_slot, kAttentionBlockSlots);
      const float reciprocal = partials[partial + ReciprocalOffset(head_dim)];
      // As for mass: neither NaN nor weights that are all 0.
      if (num_slots <= 0 || !(reciprocal <= 1)) continue;
      const float scale = job.peak_scale[tile.row + r] * own[partial + MaximumOffset(head_dim)] * reciprocal;
      queries[count++] = {weights + i * kAttentionBlockSlots, scale, num_slots};
      most = std::max(most, num_slots);
    }
    float* peaks = tile.peaks + head * job.peak_slots + first_slot;
    for (int64_t slot = 0; slot < most; slot += kPageSlots) {
      auto raised = L::Set(0.0f);
      for (int64_t i = 0; i < count; ++i) {
        if (queries[i].num_slots <= slot) continue;
        raised = L::Max(L::Mul(L::Load(queries[i].weights + slot), L::Set(queries[i].scale)), raised);
      }
      if (job.one_thread || tile.alone) {
        L::Store(peaks + slot, L::Max(raised, L::Load(peaks + slot)));
      } else {
        alignas(64) float lanes[kPageSlots];
        L::Store(lanes, raised);
        RaiseShared(peaks + slot, lanes);
      }
    }
  }
}

}  // namespace winnow::cpu
