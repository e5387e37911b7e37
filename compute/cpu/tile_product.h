// One tile times the same 32 inputs of M activation rows, for every kind of tile: acc[m] lane = output row. The order
// of operations of each output is the contract in compute/weight_blocks.h.
#pragma once

#include "compute/cpu/kernels.h"

namespace winnow::cpu {

// Loops over a handful of registers are unrolled, so that arrays of them stay in registers. Lanes that are arrays
// themselves define it as nothing: it would only make the compiler slow.
#ifndef WINNOW_UNROLL
#define WINNOW_UNROLL _Pragma("GCC unroll 8")
#endif

// dot[m] += the products of 16 * kHalves inputs, from the first or second half of the block on. Pairs of products are
// summed in 16 bits over kGroups groups of 4 inputs before they are widened.
template <class L, TileKind kKind, int kHalves, int M>
[[gnu::always_inline]] inline void AddProducts(const std::byte* tile, int half, const ActivationBlock* x,
                                               int64_t stride, typename L::Int (&dot)[M]) {
  constexpr TileForm kForm = FormOf(kKind);
  constexpr int kGroups = kForm.groups_per_sum, kAll = 4 * kHalves;
  static_assert(kAll % kGroups == 0);
  WINNOW_UNROLL
  for (int begin = 0; begin < kAll; begin += kGroups) {
    typename L::Pairs sum[M];
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) sum[m] = L::ZeroPairs();
    WINNOW_UNROLL
    for (int i = begin; i < begin + kGroups; ++i) {
      // Nibbles of both halves lie in the same bytes: they are taken in turn.
      const int group = kForm.nibbles && kHalves == 2 ? i / 2 + i % 2 * 4 : 4 * half + i;
      const auto bytes = L::LoadBytes(tile + 64 * (kForm.nibbles ? group % 4 : group));
      if constexpr (kForm.is_signed) {
        const auto magnitudes = L::AbsBytes(bytes);
        WINNOW_UNROLL
        for (int m = 0; m < M; ++m) sum[m] = L::MulSigned(sum[m], bytes, magnitudes, x[m * stride].q + 4 * group);
      } else {
        const auto weights = !kForm.nibbles ? bytes : group < 4 ? L::LowNibbles(bytes) : L::HighNibbles(bytes);
        WINNOW_UNROLL
        for (int m = 0; m < M; ++m) sum[m] = L::MulUnsigned(sum[m], weights, x[m * stride].q + 4 * group);
      }
    }
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) dot[m] = L::Widen(sum[m], dot[m]);
  }
}

// Scales or mins of a tile.
template <class L, TileKind kKind>
[[gnu::always_inline]] inline typename L::Float LoadFactors(const std::byte* p) {
  if constexpr (FormOf(kKind).has_float_factors()) {
    return L::Load(reinterpret_cast<const float*>(p));
  } else {
    return L::LoadHalf(reinterpret_cast<const uint16_t*>(p));
  }
}

// acc[m] += tile * x[m], where x[m] is x + m * stride.
template <class L, TileKind kKind, int M>
[[gnu::always_inline]] inline void AddTile(const std::byte* tile, const ActivationBlock* x, int64_t stride,
                                           typename L::Float (&acc)[M]) {
  constexpr TileForm kForm = FormOf(kKind);
  constexpr int kSteps = kForm.arithmetic == WeightArithmetic::kSubScaleMin ? 2 : 1;  // halves or the block at once
  WINNOW_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    typename L::Int dot[M];
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) {
      const int32_t* sums = x[m * stride].half_int;
      dot[m] = L::SetInt(kForm.offset == 0 ? 0 : -kForm.offset * (kSteps == 2 ? sums[step] : sums[0] + sums[1]));
    }
    AddProducts<L, kKind, 2 / kSteps, M>(tile, step, x, stride, dot);
    const int64_t factor = kForm.num_factors == 2 ? step * kForm.factor_bytes() : 0;
    const auto scale = LoadFactors<L, kKind>(tile + kForm.q_bytes() + factor);
    if constexpr (kForm.arithmetic != WeightArithmetic::kScale) {
      const auto min = LoadFactors<L, kKind>(tile + kForm.min_begin() + factor);
      WINNOW_UNROLL
      for (int m = 0; m < M; ++m) {
        const ActivationBlock& a = x[m * stride];
        acc[m] = L::Fma(min, L::Set(kSteps == 2 ? a.half_sum[step] : a.sum), acc[m]);
      }
    }
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) {
      acc[m] = L::Fma(L::ToFloat(dot[m]), L::Mul(scale, L::Set(x[m * stride].scale)), acc[m]);
    }
  }
}

// The same for float weights and float activations.
template <class L, TileKind kKind, int M>
[[gnu::always_inline]] inline void AddTile(const std::byte* tile, const float* x, int64_t stride,
                                           typename L::Float (&acc)[M]) {
  for (int i = 0; i < kTileInputs; ++i) {
    typename L::Float weights;
    if constexpr (kKind == TileKind::kFloat) {
      weights = L::Load(reinterpret_cast<const float*>(tile) + kTileRows * i);
    } else if constexpr (kKind == TileKind::kBFloat16) {
      weights = L::Load(reinterpret_cast<const uint16_t*>(tile) + kTileRows * i);
    } else {
      weights = L::LoadHalf(reinterpret_cast<const uint16_t*>(tile) + kTileRows * i);
    }
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) acc[m] = L::Fma(weights, L::Set(x[m * stride + i]), acc[m]);
  }
}

}  // namespace winnow::cpu
