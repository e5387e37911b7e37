// Attention of a tile of queries over one block of 128 slots, and the merge of blocks. The only place where attention
// is computed: prefill and decode differ in how many rows share a tile, which changes no bit.
//   scores: lane = slot, a chain over the head dimension;  output: lane = dimension, a chain over the slots.
// Slots beyond what a row sees may hold anything, NaN included: their scores are replaced before use and their values
// are never multiplied, since 0 * NaN is not 0.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "base/exact_math.h"
#include "compute/cpu/exp.h"
#include "compute/cpu/kernels.h"
#include "compute/cpu/tile_product.h"

namespace winnow::cpu {

constexpr int64_t kBlockPages = kAttentionBlockSlots / kPageSlots;

// E: element of pages, uint16_t (bfloat16) or float.
template <class L, class E>
struct AttentionKernel {
  using Float = typename L::Float;

  static const E* Keys(const AttentionJob& job, int32_t page) {
    return reinterpret_cast<const E*>(job.pool + page * job.page_bytes);
  }
  static const E* Values(const AttentionJob& job, int32_t page) {
    return Keys(job, page) + kPageSlots * job.kv.head_dim;
  }

  // scores[m][16 p ..] of Q queries against P pages.
  template <int Q, int P>
  static void ScorePages(const AttentionJob& job, const float* const* q, const int32_t* pages, float* scores) {
    const E* keys[P];
    WINNOW_UNROLL
    for (int p = 0; p < P; ++p) keys[p] = Keys(job, pages[p]);
    Float acc[P][Q];
    WINNOW_UNROLL
    for (int p = 0; p < P; ++p) {
      WINNOW_UNROLL
      for (int m = 0; m < Q; ++m) acc[p][m] = L::Set(0.0f);
    }
    for (int64_t i = 0; i < job.kv.head_dim; i += 2) {
      WINNOW_UNROLL
      for (int p = 0; p < P; ++p) {
        Float even, odd;
        L::LoadPairs(keys[p] + kPageSlots * i, &even, &odd);
        WINNOW_UNROLL
        for (int m = 0; m < Q; ++m) acc[p][m] = L::Fma(even, L::Set(q[m][i]), acc[p][m]);
        WINNOW_UNROLL
        for (int m = 0; m < Q; ++m) acc[p][m] = L::Fma(odd, L::Set(q[m][i + 1]), acc[p][m]);
      }
    }
    WINNOW_UNROLL
    for (int p = 0; p < P; ++p) {
      WINNOW_UNROLL
      for (int m = 0; m < Q; ++m) L::Store(scores + m * kAttentionBlockSlots + kPageSlots * p, acc[p][m]);
    }
  }

  // Scores in, weights exp(score - maximum) out; the sum of weights and the maximum go to the partial.
  static void Softmax(float* scores, int64_t count, float* partial_sum) {
    const int64_t last = (count - 1) / 16 * 16;
    L::Store(scores + last, L::Fill(L::Load(scores + last), count - last, -std::numeric_limits<float>::infinity()));
    auto top = L::Set(-1e30f);
    bool nan = false;
    for (int64_t j = 0; j <= last; j += 16) {
      const auto s = L::Load(scores + j);
      nan |= L::AnyNaN(s);
      top = L::Max(s, top);
    }
    const float maximum = L::MaxLane(top);
    auto sum = L::Set(0.0f);
    for (int64_t j = 0; j <= last; j += 16) {
      const auto weight = Exp<L>(L::Sub(L::Load(scores + j), L::Set(maximum)));
      L::Store(scores + j, weight);
      sum = L::Add(sum, weight);
    }
    L::Store(partial_sum, sum);
    partial_sum[16] = nan ? std::numeric_limits<float>::quiet_NaN() : maximum;
  }

  // Dimensions [dim, dim + 16 C) of the weighted sum of values for Q queries; counts rise from query to query.
  template <int Q, int C>
  static void WeighValues(const AttentionJob& job, const int32_t* pages, const float* weights, const int64_t* counts,
                          int64_t dim, float* partials, int64_t stride) {
    Float acc[Q][C];
    WINNOW_UNROLL
    for (int m = 0; m < Q; ++m) {
      WINNOW_UNROLL
      for (int c = 0; c < C; ++c) acc[m][c] = L::Set(0.0f);
    }
    const int64_t head_dim = job.kv.head_dim, common = counts[0];
    for (int64_t begin = 0; begin < common; begin += kPageSlots) {
      const E* value = Values(job, pages[begin / kPageSlots]) + dim;
      const int64_t end = std::min(common, begin + kPageSlots);
      for (int64_t j = begin; j < end; ++j, value += head_dim) {
        Float v[C];
        WINNOW_UNROLL
        for (int c = 0; c < C; ++c) v[c] = L::Load(value + 16 * c);
        WINNOW_UNROLL
        for (int m = 0; m < Q; ++m) {
          const auto weight = L::Set(weights[m * kAttentionBlockSlots + j]);
          WINNOW_UNROLL
          for (int c = 0; c < C; ++c) acc[m][c] = L::Fma(v[c], weight, acc[m][c]);
        }
      }
    }
    WINNOW_UNROLL
    for (int m = 0; m < Q; ++m) {
      for (int64_t j = common; j < counts[m]; ++j) {
        const E* value = Values(job, pages[j / kPageSlots]) + j % kPageSlots * head_dim + dim;
        const auto weight = L::Set(weights[m * kAttentionBlockSlots + j]);
        WINNOW_UNROLL
        for (int c = 0; c < C; ++c) acc[m][c] = L::Fma(L::Load(value + 16 * c), weight, acc[m][c]);
      }
      WINNOW_UNROLL
      for (int c = 0; c < C; ++c) L::Store(partials + m * stride + dim + 16 * c, acc[m][c]);
    }
  }

  // As many pages or groups of dimensions at once as give the eight chains that hide the latency of fma.
  template <int Q>
  static constexpr int kAtOnce = L::kQueriesAtOnce == 1 ? 1
                                 : Q == 1               ? 4
                                 : Q == 2               ? 2
                                                        : 1;

  // Scores of Q queries against the pages of one block.
  template <int Q>
  static void ScoreBlock(const AttentionJob& job, const float* const* q, const int32_t* pages, int64_t num_pages,
                         float* scores) {
    int64_t p = 0;
    for (; p + kAtOnce<Q> <= num_pages; p += kAtOnce<Q>) {
      ScorePages<Q, kAtOnce<Q>>(job, q, pages + p, scores + kPageSlots * p);
    }
    for (; p < num_pages; ++p) ScorePages<Q, 1>(job, q, pages + p, scores + kPageSlots * p);
  }

  // All dimensions of the weighted sum of values of one block for Q queries.
  template <int Q>
  static void WeighBlock(const AttentionJob& job, const int32_t* pages, const float* weights, const int64_t* counts,
                         float* partials, int64_t stride) {
    int64_t dim = 0;
    for (; dim + 16 * kAtOnce<Q> <= job.kv.head_dim; dim += 16 * kAtOnce<Q>) {
      WeighValues<Q, kAtOnce<Q>>(job, pages, weights, counts, dim, partials, stride);
    }
    for (; dim < job.kv.head_dim; dim += 16) {
      WeighValues<Q, 1>(job, pages, weights, counts, dim, partials, stride);
    }
  }

  // f(std::integral_constant<int, size>), size <= Q.
  template <int Q, class F>
  static void WithSize(int64_t size, F&& f) {
    if (size == Q) return f(std::integral_constant<int, Q>());
    if constexpr (Q > 1) WithSize<Q - 1>(size, f);
  }

  // f(size as a constant, first query) for as few groups of queries as possible, of nearly equal size: a group of one
  // uses the registers badly.
  template <class F>
  static void ForGroups(int64_t begin, int64_t end, F&& f) {
    for (int64_t i = begin, size; i < end; i += size) {
      const int64_t groups = (end - i + L::kQueriesAtOnce - 1) / L::kQueriesAtOnce;
      size = (end - i + groups - 1) / groups;
      WithSize<L::kQueriesAtOnce>(size, [&](auto constant) { f(constant, i); });
    }
  }

  static void AttendBlock(const AttentionJob& job, const AttentionTile& tile, int64_t block, float* partials) {
    const int64_t first_slot = block * kAttentionBlockSlots, end = tile.num_queries();
    const int64_t head_dim = job.kv.head_dim, stride = PartialFloats(head_dim);
    const int32_t* pages = tile.pages + block * kBlockPages;
    alignas(64) float passing[kMaxTileQueries * kAttentionBlockSlots];
    // Observed rows need the weights again when the sum over all blocks is known.
    float* scores = tile.observe != nullptr ? partials + end * stride : passing;
    const float* q[kMaxTileQueries];
    int64_t counts[kMaxTileQueries];
    for (int64_t i = 0; i < end; ++i) {
      const int64_t r = i / tile.heads, head = tile.head + i % tile.heads;
      q[i] = job.q + ((tile.row + r) * job.query_heads + head) * head_dim;
      counts[i] = std::min(tile.Visible(r) - first_slot, kAttentionBlockSlots);
    }
    int64_t begin = 0;  // rows come in order, so those that do not see the block are the first
    while (begin < end && counts[begin] <= 0) ++begin;
    // All scores, then all sums: the block's keys, and then its values, stay in the first-level cache.
    ForGroups(begin, end, [&](auto size, int64_t i) {
      const int64_t num_pages = (counts[i + size - 1] + kPageSlots - 1) / kPageSlots;
      ScoreBlock<size>(job, q + i, pages, num_pages, scores + i * kAttentionBlockSlots);
    });
    for (int64_t i = begin; i < end; ++i) {
      Softmax(scores + i * kAttentionBlockSlots, counts[i], partials + i * stride + head_dim);
    }
    ForGroups(begin, end, [&](auto size, int64_t i) {
      WeighBlock<size>(job, pages, scores + i * kAttentionBlockSlots, counts + i, partials + i * stride, stride);
    });
  }
};

template <class L>
void AttendBlock(const AttentionJob& job, const AttentionTile& tile, int64_t block, float* partials) {
  if (job.kv.dtype == DType::kBF16) {
    AttentionKernel<L, uint16_t>::AttendBlock(job, tile, block, partials);
  } else {
    AttentionKernel<L, float>::AttendBlock(job, tile, block, partials);
  }
}

template <class L>
void MergeBlocks(const AttentionJob& job, const AttentionTile& tile, float* partials) {
  const int64_t head_dim = job.kv.head_dim, num_queries = tile.num_queries();
  const int64_t block_stride = BlockFloats(tile, head_dim);
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
    for (int64_t dim = 0; dim < head_dim; dim += 16) {
      auto acc = L::Set(0.0f);
      for (int64_t b = 0; b < num_blocks; ++b) {
        acc = L::Fma(L::Set(maxima[b * block_stride]), L::Load(partial + b * block_stride + dim), acc);
      }
      L::Store(out + dim, L::Mul(acc, inverse));
    }
  }
}

}  // namespace winnow::cpu
