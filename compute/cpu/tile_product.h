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

// dot[m] += the products of the first or second 16 inputs of the block. Pairs of products are summed in 16 bits over
// kGroups groups of 4 inputs before they are widened.
template <class L, TileKind kKind, int M>
[[gnu::always_inline]] inline void AddProducts(const std::byte* tile, int half, const ActivationBlock* x,
                                               int64_t stride, typename L::Int (&dot)[M]) {
  constexpr TileForm kForm = FormOf(kKind);
  constexpr int kGroups = kForm.groups_per_sum;
  static_assert(4 % kGroups == 0);
  WINNOW_UNROLL
  for (int begin = 0; begin < 4; begin += kGroups) {
    typename L::Pairs sum[M];
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) sum[m] = L::ZeroPairs();
    WINNOW_UNROLL
    for (int i = begin; i < begin + kGroups; ++i) {
      const int group = 4 * half + i;
      const auto bytes = L::LoadBytes(tile + 64 * (kForm.nibbles ? i : group));
      if constexpr (kForm.is_signed) {
        const auto magnitudes = L::AbsBytes(bytes);
        WINNOW_UNROLL
        for (int m = 0; m < M; ++m) sum[m] = L::MulSigned(sum[m], bytes, magnitudes, x[m * stride].q + 4 * group);
      } else {
        const auto weights = !kForm.nibbles ? bytes : half == 0 ? L::LowNibbles(bytes) : L::HighNibbles(bytes);
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
  WINNOW_UNROLL
  for (int half = 0; half < 2; ++half) {
    typename L::Int dot[M];
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) {
      dot[m] = L::SetInt(kForm.offset == 0 ? 0 : -kForm.offset * x[m * stride].int_sum[half]);
    }
    AddProducts<L, kKind, M>(tile, half, x, stride, dot);
    const int64_t factor = kForm.num_factors == 2 ? half * kForm.factor_bytes() : 0;
    const auto scale = LoadFactors<L, kKind>(tile + kForm.q_bytes() + factor);
    if constexpr (kForm.arithmetic != WeightArithmetic::kScale) {
      const auto min = LoadFactors<L, kKind>(tile + kForm.min_begin() + factor);
      WINNOW_UNROLL
      for (int m = 0; m < M; ++m) acc[m] = L::Fma(min, L::Set(x[m * stride].sum[half]), acc[m]);
    }
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) {
      acc[m] = L::Fma(L::ToFloat(dot[m]), L::Mul(scale, L::Set(x[m * stride].scale[half])), acc[m]);
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
