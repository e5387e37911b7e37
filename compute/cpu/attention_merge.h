// What attention of one block leaves (a partial), and the merge of a query's partials into its result, in the order of
// the blocks. Kernels of any thread, on tiles of its own.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>

#include "base/exact_math.h"
#include "compute/cpu/kernels.h"

namespace winnow::cpu {

// Dimensions of a partial that lie in groups of 32 as 16 even ones, then 16 odd ones; the rest is in order.
inline int64_t PairedDimensions(const KvLayout& kv) {
  return kv.dtype == DType::kBF16 ? kv.head_dim / 32 * 32 : 0;
}

template <class L>
void MergeBlocks(const AttentionJob& job, const AttentionTile& tile, float* partials) {
  const int64_t head_dim = job.kv.head_dim, num_queries = tile.num_queries();
  const int64_t block_stride = BlockFloats(tile, head_dim), in_pairs = PairedDimensions(job.kv);
  for (int64_t i = 0; i < num_queries; ++i) {
    const int64_t r = i / tile.heads, head = tile.head + i % tile.heads;
    const int64_t num_blocks = (tile.Visible(r) + kAttentionBlockSlots - 1) / kAttentionBlockSlots;
    float* partial = partials + i * PartialFloats(head_dim);
    float* out = job.out + ((tile.row + r) * job.query_heads + head) * head_dim;
    float* maxima = partial + MaximumOffset(head_dim);  // of blocks, block_stride apart; become the blocks' weights
    float top = -1e30f;
    bool nan = false;
    for (int64_t b = 0; b < num_blocks; ++b) {
      const float maximum = maxima[b * block_stride];
      nan |= maximum != maximum;
      top = maximum > top ? maximum : top;
    }
    float& reciprocal = partial[ReciprocalOffset(head_dim)];
    if (nan) {
      reciprocal = std::numeric_limits<float>::quiet_NaN();
      std::fill(out, out + head_dim, std::bit_cast<float>(0x7fc00000u));
      continue;
    }
    auto sum = L::Set(0.0f);
    for (int64_t b = 0; b < num_blocks; ++b) {
      float& weight = maxima[b * block_stride];
      weight = ExactExp(weight - top);
      sum = L::Fma(L::Set(weight), L::Load(partial + b * block_stride + head_dim), sum);
    }
    reciprocal = 1.0f / L::SumLanes(sum);
    const auto inverse = L::Set(reciprocal);
    const auto dimensions = [&](int64_t dim) {
      auto acc = L::Set(0.0f);
      for (int64_t b = 0; b < num_blocks; ++b) {
        acc = L::Fma(L::Set(maxima[b * block_stride]), L::Load(partial + b * block_stride + dim), acc);
      }
      return L::Mul(acc, inverse);
    };
    for (int64_t dim = 0; dim < in_pairs; dim += 32) {
      alignas(64) float even[16], odd[16];
      L::Store(even, dimensions(dim));
      L::Store(odd, dimensions(dim + 16));
      for (int64_t j = 0; j < 16; ++j) {
        out[dim + 2 * j] = even[j];
        out[dim + 2 * j + 1] = odd[j];
      }
    }
    for (int64_t dim = in_pairs; dim < head_dim; dim += 16) L::Store(out + dim, dimensions(dim));
  }
}

}  // namespace winnow::cpu
