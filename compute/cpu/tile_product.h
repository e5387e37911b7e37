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

// dot[m] += the products of all 32 inputs. 16 products of a nibble and an activation meet in 16 bits: at most 16 * 15 *
// 127 = 30480.
template <class L, int M>
[[gnu::always_inline]] inline void NibbleDot(const std::byte* tile, const ActivationBlock* x, int64_t stride,
                                             typename L::Int (&dot)[M]) {
  typename L::Pairs sum[M];
  WINNOW_UNROLL
  for (int m = 0; m < M; ++m) sum[m] = L::ZeroPairs();
  WINNOW_UNROLL
  for (int i = 0; i < 4; ++i) {
    const auto raw = L::LoadBytes(tile + 64 * i);
    const auto low = L::LowNibbles(raw);
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) sum[m] = L::MulUnsigned(sum[m], low, x[m * stride].q + 4 * i);
    const auto high = L::HighNibbles(raw);
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) sum[m] = L::MulUnsigned(sum[m], high, x[m * stride].q + 16 + 4 * i);
  }
  WINNOW_UNROLL
  for (int m = 0; m < M; ++m) dot[m] = L::Widen(sum[m], dot[m]);
}

// dot[m] += the products of 16 inputs. Pairs of products are widened after kGroups groups of 4 inputs: 1 for any int8
// (2 * 128 * 127 = 32512), 4 if |q| <= 32 (8 * 32 * 127 = 32512).
template <class L, int M, int kGroups>
[[gnu::always_inline]] inline void ByteDotHalf(const std::byte* tile, int half, const ActivationBlock* x,
                                               int64_t stride, typename L::Int (&dot)[M]) {
  WINNOW_UNROLL
  for (int begin = 0; begin < 4; begin += kGroups) {
    typename L::Pairs sum[M];
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) sum[m] = L::ZeroPairs();
    WINNOW_UNROLL
    for (int i = begin; i < begin + kGroups; ++i) {
      const auto weights = L::LoadBytes(tile + 256 * half + 64 * i);
      const auto magnitudes = L::AbsBytes(weights);
      WINNOW_UNROLL
      for (int m = 0; m < M; ++m) {
        sum[m] = L::MulSigned(sum[m], weights, magnitudes, x[m * stride].q + 16 * half + 4 * i);
      }
    }
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) dot[m] = L::Widen(sum[m], dot[m]);
  }
}

template <class L>
[[gnu::always_inline]] inline typename L::Float LoadHalves(const std::byte* p) {
  return L::LoadHalf(reinterpret_cast<const uint16_t*>(p));
}

// acc[m] += tile * x[m], where x[m] is x + m * stride.
template <class L, TileKind kKind, int M>
[[gnu::always_inline]] inline void AddTile(const std::byte* tile, const ActivationBlock* x, int64_t stride,
                                           typename L::Float (&acc)[M]) {
  constexpr bool kNibbles = kKind == TileKind::kNibbleScale || kKind == TileKind::kNibbleScaleMin;
  constexpr bool kMin = kKind == TileKind::kNibbleScaleMin || kKind == TileKind::kShortScaleMin;
  constexpr bool kSub = kKind == TileKind::kByteSub || kKind == TileKind::kShortSub;
  constexpr int kGroups = kKind == TileKind::kByteScale || kKind == TileKind::kByteSub ? 1 : 4;
  typename L::Int dot[M];
  if constexpr (kSub) {
    const float* factors = reinterpret_cast<const float*>(tile + 512);
    WINNOW_UNROLL
    for (int half = 0; half < 2; ++half) {
      WINNOW_UNROLL
      for (int m = 0; m < M; ++m) dot[m] = L::SetInt(0);
      ByteDotHalf<L, M, kGroups>(tile, half, x, stride, dot);
      const auto scale = L::Load(factors + 16 * half), min = L::Load(factors + 32 + 16 * half);
      WINNOW_UNROLL
      for (int m = 0; m < M; ++m) {
        const ActivationBlock& a = x[m * stride];
        acc[m] = L::Fma(min, L::Set(a.half_sum[half]), acc[m]);
        acc[m] = L::Fma(L::ToFloat(dot[m]), L::Mul(scale, L::Set(a.scale)), acc[m]);
      }
    }
  } else {
    WINNOW_UNROLL
    for (int m = 0; m < M; ++m) {
      dot[m] = L::SetInt(kKind == TileKind::kNibbleScale ? x[m * stride].minus_8_sum : 0);
    }
    if constexpr (kNibbles) {
      NibbleDot<L, M>(tile, x, stride, dot);
    } else {
      ByteDotHalf<L, M, kGroups>(tile, 0, x, stride, dot);
      ByteDotHalf<L, M, kGroups>(tile, 1, x, stride, dot);
    }
    const std::byte* factors = tile + (kNibbles ? 256 : 512);
    const auto scale = LoadHalves<L>(factors);
    if constexpr (kMin) {
      const auto min = LoadHalves<L>(factors + 32);
      WINNOW_UNROLL
      for (int m = 0; m < M; ++m) acc[m] = L::Fma(min, L::Set(x[m * stride].sum), acc[m]);
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
