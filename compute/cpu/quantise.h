// Activations to int8 in blocks of 32 (the arithmetic is stated in compute/weight_blocks.h).
#pragma once

#include <limits>

#include "compute/cpu/kernels.h"

namespace winnow::cpu {

template <class L>
void Quantise(const float* x, int64_t blocks, ActivationBlock* out) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (int64_t b = 0; b < blocks; ++b, x += 32, ++out) {
    const auto first = L::Load(x), second = L::Load(x + 16);
    float d = std::numeric_limits<float>::quiet_NaN(), inverse = 0.0f;
    if ((L::NotBelow(first, kInfinity) | L::NotBelow(second, kInfinity)) == 0) [[likely]] {
      const float top = L::MaxLane(L::Max(L::Abs(first), L::Abs(second)));
      d = top / 127.0f;
      inverse = top > 0.0f ? 127.0f / top : 0.0f;
      if (!(inverse < kInfinity)) inverse = 0.0f;  // top is denormal: all integers are 0
    }
    auto u = L::SetInt(0), v = L::SetInt(0);
    if (inverse > 0.0f) {
      u = L::ToInt(L::Mul(first, L::Set(inverse)));
      v = L::ToInt(L::Mul(second, L::Set(inverse)));
    }
    L::StoreInt8(out->q, u, v);
    const int32_t half_sum[2] = {L::SumInt(u), L::SumInt(v)}, sum = half_sum[0] + half_sum[1];
    out->scale = d;
    out->sum = d * float(sum);
    for (int half = 0; half < 2; ++half) {
      out->half_sum[half] = d * float(half_sum[half]);
      out->half_int[half] = half_sum[half];
    }
  }
}

}  // namespace winnow::cpu
