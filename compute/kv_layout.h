// The layout of KV pages. A page holds 16 slots of one KV head of one layer: first K, then V.
//   K: [head_dim / 2][16 slots][2]  a load gives one pair of dimensions of 16 slots, so that a lane is a slot
//   V: [16 slots][head_dim]
// A *physical slot* is page * 16 + slot in page, in one pool of pages per rank. Int32 throughout.
#pragma once

#include <cstdint>

#include "compute/dtype.h"

namespace winnow {

constexpr int64_t kPageSlots = 16;
// Attention is computed in blocks of 128 slots by slot index, on every backend (contract E1, E3).
constexpr int64_t kAttentionBlockSlots = 128;

// Attention mass is counted in steps of 2^-30 of a query's softmax weight, in 64-bit integers: sums in any order of
// rows, query heads, chunks and threads are equal, and 2^33 queries fit.
constexpr float kMassSteps = 0x1p30f;

struct KvLayout {
  int64_t head_dim = 0;        // a multiple of 16
  DType dtype = DType::kBF16;  // kBF16 or kF32

  int64_t page_bytes() const { return 2 * kPageSlots * head_dim * BlockBytes(dtype); }
};

}  // namespace winnow
