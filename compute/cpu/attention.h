// Attention of a tile of queries over one block of 128 slots; attention_merge.h adds the blocks up. The only place
// where attention is computed: prefill and decode differ in how many rows share a tile, which changes no bit.
//   scores: lane = slot, a chain over the head dimension;  output: lane = dimension, a chain over the slots.
// Slots beyond what a row sees may hold anything, NaN included: their scores are replaced before use and their values
// are never multiplied, since 0 * NaN is not 0.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "compute/cpu/attention_merge.h"
#include "compute/cpu/exp.h"
#include "compute/cpu/kernels.h"
#include "compute/cpu/tile_product.h"

namespace winnow::cpu {

// With 12 of 16 registers full of sums, what has been loaded is better loaded again than kept: the compiler would keep
// it and spill the sums.
#define WINNOW_FORGET_LOADS asm volatile("" ::: "memory")

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

  // Brings N elements into the second-level cache. Pages lie anywhere, so no hardware prefetcher finds the next one.
  // Into the first level (t0) it would wait for memory in the buffers that the block at work needs (decode beyond the
  // cache, heads of 64 in bfloat16, Zen 4: none 9, t0 10, t1 16 to 20 GB/s).
  template <int N>
  [[gnu::always_inline]] static void Prefetch(const E* p) {
    WINNOW_UNROLL
    for (int i = 0; i < N * int(sizeof(E)); i += 64) {
      __builtin_prefetch(reinterpret_cast<const std::byte*>(p) + i, 0, 2);
    }
  }

  // scores[m][16 p ..] of Q queries against P pages. Meanwhile the pages' values are fetched: they are needed next.
  template <int Q, int P>
  static void ScorePages(const AttentionJob& job, const float* const* q, const int32_t* pages, float* scores) {
    const E* keys[P];
    WINNOW_UNROLL
    for (int p = 0; p < P; ++p) keys[p] = Keys(job, pages[p]);
    const float* query[Q];
    WINNOW_UNROLL
    for (int m = 0; m < Q; ++m) query[m] = q[m];
    const int64_t head_dim = job.kv.head_dim;
    Float acc[P][Q];
    WINNOW_UNROLL
    for (int p = 0; p < P; ++p) {
      WINNOW_UNROLL
      for (int m = 0; m < Q; ++m) acc[p][m] = L::Set(0.0f);
    }
    for (int64_t i = 0; i < head_dim; i += 2) {
      WINNOW_UNROLL
      for (int p = 0; p < P; ++p) {
        const E* pair = keys[p] + kPageSlots * i;
        Prefetch<2 * kPageSlots>(pair + kPageSlots * head_dim);
        Float even, odd;
        L::LoadPairs(pair, &even, &odd);
        WINNOW_UNROLL
        for (int m = 0; m < Q; ++m) acc[p][m] = L::Fma(even, L::Set(query[m][i]), acc[p][m]);
        if constexpr (Q > 1) {
          WINNOW_FORGET_LOADS;
          L::LoadPairs(pair, &even, &odd);
        }
        WINNOW_UNROLL
        for (int m = 0; m < Q; ++m) acc[p][m] = L::Fma(odd, L::Set(query[m][i + 1]), acc[p][m]);
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

  // Which 16 dimensions a register of values holds: a run of them, or every second one of 32, which costs less to
  // unpack from bfloat16. Both is the even and the odd ones.
  enum class Part { kRun, kEven, kOdd, kBoth };

  template <Part kPart>
  [[gnu::always_inline]] static Float LoadValue(const E* value, int c) {
    if constexpr (kPart == Part::kRun) {
      return L::Load(value + 16 * c);
    } else {
      Float even, odd;
      L::LoadPairs(kPart == Part::kBoth ? value + c / 2 * 32 : value + c * 32, &even, &odd);
      return kPart == Part::kOdd || (kPart == Part::kBoth && c % 2 != 0) ? odd : even;
    }
  }

  // The weighted sum of values for Q queries: C registers' part of the dimensions from `dim` on. Counts rise from query
  // to query. Meanwhile the keys of `ahead`, the next block's pages, are fetched.
  template <int Q, Part kPart, int C>
  static void WeighValues(const AttentionJob& job, const int32_t* pages, const int32_t* ahead, const float* weights,
                          const int64_t* counts, int64_t dim, float* partials, int64_t stride) {
    Float acc[Q][C];
    WINNOW_UNROLL
    for (int m = 0; m < Q; ++m) {
      WINNOW_UNROLL
      for (int c = 0; c < C; ++c) acc[m][c] = L::Set(0.0f);
    }
    const int64_t head_dim = job.kv.head_dim, common = counts[0];
    // What this call fetches follows what the calls for lower dimensions fetched: memory likes one long run.
    constexpr int64_t kWidth = 16 * C;
    const int64_t fetched = (dim + (kPart == Part::kOdd ? 16 : 0)) * kBlockPages;  // of each slot's dimensions
    int64_t ahead_page = fetched / head_dim, ahead_dim = fetched % head_dim;
    for (int64_t begin = 0; begin < common; begin += kPageSlots) {
      const E* value = Values(job, pages[begin / kPageSlots]) + dim;
      const E* next = Keys(job, ahead[ahead_page]) + kPageSlots * ahead_dim;
      ahead_dim += kWidth;
      if (ahead_dim >= head_dim) ahead_dim -= head_dim, ++ahead_page;
      const int64_t end = std::min(common, begin + kPageSlots);
      for (int64_t j = begin; j < end; ++j, value += head_dim, next += kWidth) {
        Prefetch<kWidth>(next);
        WINNOW_UNROLL
        for (int c = 0; c < C; ++c) {
          if constexpr (Q * C >= 6) WINNOW_FORGET_LOADS;
          const Float v = LoadValue<kPart>(value, c);
          WINNOW_UNROLL
          for (int m = 0; m < Q; ++m) acc[m][c] = L::Fma(v, L::Set(weights[m * kAttentionBlockSlots + j]), acc[m][c]);
        }
      }
    }
    WINNOW_UNROLL
    for (int m = 0; m < Q; ++m) {
      for (int64_t j = common; j < counts[m]; ++j) {
        const E* value = Values(job, pages[j / kPageSlots]) + j % kPageSlots * head_dim + dim;
        const auto weight = L::Set(weights[m * kAttentionBlockSlots + j]);
        WINNOW_UNROLL
        for (int c = 0; c < C; ++c) acc[m][c] = L::Fma(LoadValue<kPart>(value, c), weight, acc[m][c]);
      }
      float* to = partials + m * stride + dim + (kPart == Part::kOdd ? 16 : 0);
      WINNOW_UNROLL
      for (int c = 0; c < C; ++c) {
        L::Store(to + (kPart == Part::kEven || kPart == Part::kOdd ? 32 : 16) * c, acc[m][c]);
      }
    }
  }

  // Pages, or groups of 16 dimensions, at once: as many sums as hide the latency of fma, which takes 8 registers of 8
  // floats, and no more than leave 4 of the 16 for what they are made of.
  template <int Q>
  static constexpr int kSumsAtOnce = L::kQueriesAtOnce == 1 ? 1
                                     : Q == 1               ? 4
                                     : Q <= 3               ? 2
                                                            : 1;

  // Scores of Q queries against the pages of one block.
  template <int Q>
  static void ScoreBlock(const AttentionJob& job, const float* const* q, const int32_t* pages, int64_t num_pages,
                         float* scores) {
    int64_t p = 0;
    for (; p + kSumsAtOnce<Q> <= num_pages; p += kSumsAtOnce<Q>) {
      ScorePages<Q, kSumsAtOnce<Q>>(job, q, pages + p, scores + kPageSlots * p);
    }
    for (; p < num_pages; ++p) ScorePages<Q, 1>(job, q, pages + p, scores + kPageSlots * p);
  }

  // All dimensions of the weighted sum of values of one block for Q queries.
  template <int Q>
  static void WeighBlock(const AttentionJob& job, const int32_t* pages, const int32_t* ahead, const float* weights,
                         const int64_t* counts, float* partials, int64_t stride) {
    constexpr int kAtOnce = kSumsAtOnce<Q>;
    const int64_t head_dim = job.kv.head_dim, in_pairs = PairedDimensions(job.kv);
    int64_t dim = 0;
    if constexpr (sizeof(E) == 2) {
      if constexpr (kAtOnce == 4) {
        for (; dim + 64 <= in_pairs; dim += 64) {
          WeighValues<Q, Part::kBoth, 4>(job, pages, ahead, weights, counts, dim, partials, stride);
        }
      }
      for (; dim < in_pairs; dim += 32) {
        if constexpr (kAtOnce > 1) {
          WeighValues<Q, Part::kBoth, 2>(job, pages, ahead, weights, counts, dim, partials, stride);
        } else {
          WeighValues<Q, Part::kEven, 1>(job, pages, ahead, weights, counts, dim, partials, stride);
          WeighValues<Q, Part::kOdd, 1>(job, pages, ahead, weights, counts, dim, partials, stride);
        }
      }
    }
    for (; dim + 16 * kAtOnce <= head_dim; dim += 16 * kAtOnce) {
      WeighValues<Q, Part::kRun, kAtOnce>(job, pages, ahead, weights, counts, dim, partials, stride);
    }
    for (; dim < head_dim; dim += 16) {
      WeighValues<Q, Part::kRun, 1>(job, pages, ahead, weights, counts, dim, partials, stride);
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
    // The last block has none ahead: it fetches itself, which costs nothing.
    int32_t ahead[kBlockPages];
    const int64_t num_pages = (tile.Visible(tile.rows - 1) + kPageSlots - 1) / kPageSlots;
    for (int64_t p = 0; p < kBlockPages; ++p) {
      const int64_t next = (block + 1) * kBlockPages + p;
      ahead[p] = next < num_pages ? tile.pages[next] : pages[0];
    }
    alignas(64) float passing[kMaxTileQueries * kAttentionBlockSlots];
    float* scores = tile.keeps_weights() ? partials + end * stride : passing;
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
      const int64_t used = (counts[i + size - 1] + kPageSlots - 1) / kPageSlots;
      ScoreBlock<size>(job, q + i, pages, used, scores + i * kAttentionBlockSlots);
    });
    for (int64_t i = begin; i < end; ++i) {
      Softmax(scores + i * kAttentionBlockSlots, counts[i], partials + i * stride + head_dim);
    }
    ForGroups(begin, end, [&](auto size, int64_t i) {
      WeighBlock<size>(job, pages, ahead, scores + i * kAttentionBlockSlots, counts + i, partials + i * stride, stride);
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

#undef WINNOW_FORGET_LOADS

}  // namespace winnow::cpu
