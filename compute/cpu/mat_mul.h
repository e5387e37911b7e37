// Matrix products over a range of tile rows: y [rows, outputs] = x W^T, plain or as segmented fixed-point sums.
#pragma once

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "compute/cpu/tile_product.h"

namespace winnow::cpu {

// Activation rows are taken in chunks that stay in the second-level cache while all tiles pass over them.
constexpr int64_t kActivationChunkBytes = 256 * 1024;
constexpr int64_t kSegmentsAtOnce = 16;  // 4 KiB of sums for 4 rows
// Steps up to which AddSteps rounds as it should.
constexpr float kQuickSteps = 0x1p51f;

template <class L, TileKind kKind>
struct MatMulKernel {
  using Float = typename L::Float;
  using Input = std::conditional_t<IsFloatKind(kKind), float, ActivationBlock>;
  static constexpr int64_t kTileBytes = TileBytes(kKind);
  static constexpr int64_t kInputsPerBlock = IsFloatKind(kKind) ? 32 : 1;

  static const Input* Inputs(const MatMulJob& job) {
    if constexpr (kInputsPerBlock == 1) {
      return job.activations;
    } else {
      return job.x;
    }
  }

  // The 16 outputs of one tile row, for M activation rows: what has been added so far, and where the next blocks are.
  template <int M>
  struct Cursor {
    const std::byte* tile;
    const Input* x;
    int64_t stride;  // of x from row to row
    Float acc[M];

    Cursor(const MatMulJob& job, int64_t tile_row, int64_t row)
        : tile(job.tiles + tile_row * job.blocks * kTileBytes), stride(job.blocks * kInputsPerBlock) {
      x = Inputs(job) + row * stride;
    }
    // acc = the sums of the next `blocks` blocks.
    [[gnu::always_inline]] void Sum(int64_t blocks) {
      WINNOW_UNROLL
      for (int m = 0; m < M; ++m) acc[m] = L::Set(0.0f);
      for (int64_t b = 0; b < blocks; ++b, tile += kTileBytes, x += kInputsPerBlock) {
        if constexpr (M == 1) {
          // One row is bound by memory: 4 KiB ahead hides its latency.
          for (int64_t i = 0; i < kTileBytes; i += 64) __builtin_prefetch(tile + 4096 + i);
        }
        AddTile<L, kKind, M>(tile, x, stride, acc);
      }
    }
  };

  // Results go to M rows far apart, which the caches seldom hold: without this, stores wait for them longer than a
  // product takes (512 rows of 576 x 576, Zen 4: float sums 2350 -> 2230 us, sums of segments 3300 -> 2650).
  template <int M, class Out>
  [[gnu::always_inline]] static void PrefetchOutputs(const Out* out, int64_t stride) {
    constexpr int kBytes = kTileRows * sizeof(Out);
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) {
      const auto* line = reinterpret_cast<const std::byte*>(out + m * stride);
      WINNOW_UNROLL
      for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(line + i, 1);
      // A row of sums starts anywhere in a line.
      if constexpr (sizeof(Out) == 8) __builtin_prefetch(line + kBytes - 1, 1);
    }
  }

  // Rows [row, row + M) of the 16 outputs of one tile row.
  template <int M>
  static void Rows(const MatMulJob& job, int64_t tile_row, int64_t row) {
    const int64_t output = kTileRows * tile_row, count = std::min(kTileRows, job.outputs - output);
    float* out = job.out + row * job.outputs + output;
    PrefetchOutputs<M>(out, job.outputs);
    Cursor<M> cursor(job, tile_row, row);
    cursor.Sum(job.blocks);
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m, out += job.outputs) {
      if (count == kTileRows) {
        L::Store(out, cursor.acc[m]);
      } else {
        float lanes[kTileRows];
        L::Store(lanes, cursor.acc[m]);
        std::copy(lanes, lanes + count, out);
      }
    }
  }

  // The same, but every segment's float sum becomes an integer before it is added to anything. The sums of a few
  // segments are put aside first: turning them into integers at once keeps both loops within the registers. Values are
  // looked at once, at the end: if one was so large that the quick rounding may be wrong, the rows are computed again
  // one by one.
  template <int M>
  static void SegmentedRows(const MatMulJob& job, int64_t tile_row, int64_t row) {
    const int64_t output = kTileRows * tile_row, count = std::min(kTileRows, job.outputs - output);
    const int64_t segments = job.blocks / job.segment_blocks;
    PrefetchOutputs<M>(job.sums + row * (job.outputs + 1) + output, job.outputs + 1);
    Cursor<M> cursor(job, tile_row, row);
    const float steps = job.fixed_point.steps_per_unit;
    typename L::Int64 sum[M];
    Float largest = L::Set(0.0f);
    for (int m = 0; m < M; ++m) sum[m] = L::ZeroInt64();
    alignas(64) float partial[kSegmentsAtOnce * M * kTileRows];  // [segment][row][output]
    for (int64_t first = 0; first < segments; first += kSegmentsAtOnce) {
      const int64_t num_segments = std::min(kSegmentsAtOnce, segments - first);
      float* to = partial;
      for (int64_t s = 0; s < num_segments; ++s, to += M * kTileRows) {
        cursor.Sum(job.segment_blocks);
        WINNOW_UNROLL
        for (int m = 0; m < M; ++m) L::Store(to + m * kTileRows, cursor.acc[m]);
      }
      for (int m = 0; m < M; ++m) {
        auto total = sum[m];
        for (int64_t s = 0; s < num_segments; ++s) {
          const float* values = partial + (s * M + m) * kTileRows;
          largest = L::MaxMagnitude(largest, L::Load(values));
          total = L::AddSteps(total, values, steps);
        }
        sum[m] = total;
      }
    }
    if (L::NotBelow(largest, std::min(job.fixed_point.limit, kQuickSteps / steps)) != 0) [[unlikely]] {
      for (int m = 0; m < M; ++m) CheckedSegmentedRow(job, tile_row, row + m);
      return;
    }
    for (int m = 0; m < M; ++m) StoreSums(job, L::FinishSteps(sum[m], segments, steps), row + m, output, count);
  }

  // One row, every value looked at: those out of range are counted and left out.
  [[gnu::noinline]] static void CheckedSegmentedRow(const MatMulJob& job, int64_t tile_row, int64_t row) {
    const int64_t output = kTileRows * tile_row, count = std::min(kTileRows, job.outputs - output);
    Cursor<1> cursor(job, tile_row, row);
    typename L::Int64 sum = L::ZeroInt64();
    int64_t bad = 0;
    for (int64_t begin = 0; begin < job.blocks; begin += job.segment_blocks) {
      cursor.Sum(job.segment_blocks);
      Float value = cursor.acc[0];
      const uint32_t out_of_range = L::NotBelow(value, job.fixed_point.limit);
      if (out_of_range != 0) {
        bad += __builtin_popcount(out_of_range & ((1u << count) - 1));
        value = WithoutLanes(value, out_of_range);
      }
      sum = L::AddRounded(sum, L::Mul(value, L::Set(job.fixed_point.steps_per_unit)));
    }
    StoreSums(job, sum, row, output, count);
    int64_t* flag = job.sums + row * (job.outputs + 1) + job.outputs;
    if (bad != 0) std::atomic_ref(*flag).fetch_add(bad, std::memory_order_relaxed);
  }

  static void StoreSums(const MatMulJob& job, typename L::Int64 sum, int64_t row, int64_t output, int64_t count) {
    int64_t* out = job.sums + row * (job.outputs + 1) + output;
    if (count == kTileRows) {
      L::Store(out, sum);
    } else {
      int64_t lanes[kTileRows];
      L::Store(lanes, sum);
      std::copy(lanes, lanes + count, out);
    }
  }

  static Float WithoutLanes(Float a, uint32_t lanes) {
    float values[16];
    L::Store(values, a);
    for (int i = 0; i < 16; ++i) values[i] = lanes >> i & 1 ? 0.0f : values[i];
    return L::Load(values);
  }

  template <int M>
  static void AnyRows(const MatMulJob& job, int64_t tile_row, int64_t row) {
    if (job.sums != nullptr) {
      SegmentedRows<M>(job, tile_row, row);
    } else {
      Rows<M>(job, tile_row, row);
    }
  }

  // Groups of M rows, then what is left in one smaller group. Rows of a group share the weights they unpack; how rows
  // are grouped changes no bit.
  template <int M>
  static void RowGroups(const MatMulJob& job, int64_t tile_row, int64_t begin, int64_t end) {
    for (; begin + M <= end; begin += M) AnyRows<M>(job, tile_row, begin);
    if constexpr (M > 1) RowGroups<M - 1>(job, tile_row, begin, end);
  }

  static void Run(const MatMulJob& job, int64_t tile_begin, int64_t tile_end) {
    const int64_t row_bytes = job.blocks * kInputsPerBlock * int64_t(sizeof(Input));
    const int64_t chunk = std::max<int64_t>(4, kActivationChunkBytes / row_bytes / 4 * 4);
    for (int64_t begin = 0; begin < job.rows; begin += chunk) {
      const int64_t end = std::min(job.rows, begin + chunk);
      for (int64_t t = tile_begin; t < tile_end; ++t) {
        RowGroups<L::kRowsAtOnce>(job, t, begin, end);
      }
    }
  }
};

template <class L>
void MatMulTiles(const MatMulJob& job, int64_t tile_begin, int64_t tile_end) {
  using enum TileKind;
  switch (job.kind) {
    case kNibbleScale:
      return MatMulKernel<L, kNibbleScale>::Run(job, tile_begin, tile_end);
    case kNibbleScaleMin:
      return MatMulKernel<L, kNibbleScaleMin>::Run(job, tile_begin, tile_end);
    case kNibbleSub:
      return MatMulKernel<L, kNibbleSub>::Run(job, tile_begin, tile_end);
    case kNibbleSubTwice:
      return MatMulKernel<L, kNibbleSubTwice>::Run(job, tile_begin, tile_end);
    case kFiveBitScale:
      return MatMulKernel<L, kFiveBitScale>::Run(job, tile_begin, tile_end);
    case kFiveBitScaleMin:
      return MatMulKernel<L, kFiveBitScaleMin>::Run(job, tile_begin, tile_end);
    case kFiveBitSub:
      return MatMulKernel<L, kFiveBitSub>::Run(job, tile_begin, tile_end);
    case kSixBitSub:
      return MatMulKernel<L, kSixBitSub>::Run(job, tile_begin, tile_end);
    case kByteScale:
      return MatMulKernel<L, kByteScale>::Run(job, tile_begin, tile_end);
    case kByteSub:
      return MatMulKernel<L, kByteSub>::Run(job, tile_begin, tile_end);
    case kHalf:
      return MatMulKernel<L, kHalf>::Run(job, tile_begin, tile_end);
    case kBFloat16:
      return MatMulKernel<L, kBFloat16>::Run(job, tile_begin, tile_end);
    case kFloat:
      return MatMulKernel<L, kFloat>::Run(job, tile_begin, tile_end);
  }
}

}  // namespace winnow::cpu
