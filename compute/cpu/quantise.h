// Activations to int8 in blocks of 16 (the arithmetic is stated in compute/weight_blocks.h).
#pragma once

#include <limits>

#include "compute/cpu/kernels.h"

namespace winnow::cpu {

// 16 activations as integers, and their scale.
template <class L>
typename L::Int QuantiseHalf(const float* x, float* scale) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto values = L::Load(x);
  *scale = std::numeric_limits<float>::quiet_NaN();
  if (L::NotBelow(values, kInfinity) != 0) [[unlikely]]
    return L::SetInt(0);
  const float top = L::MaxLane(L::Abs(values));
  *scale = top / 127.0f;
  const float inverse = top > 0.0f ? 127.0f / top : 0.0f;
  if (!(inverse < kInfinity) || inverse == 0.0f) return L::SetInt(0);  // top is denormal or 0: all integers are 0
  return L::ToInt(L::Mul(values, L::Set(inverse)));
}

template <class L>
void Quantise(const float* x, int64_t blocks, ActivationBlock* out) {
  for (int64_t b = 0; b < blocks; ++b, x += 32, ++out) {
    const typename L::Int halves[2] = {QuantiseHalf<L>(x, &out->scale[0]), QuantiseHalf<L>(x + 16, &out->scale[1])};
    L::StoreInt8(out->q, halves[0], halves[1]);
    for (int half = 0; half < 2; ++half) {
      out->int_sum[half] = L::SumInt(halves[half]);
      out->sum[half] = out->scale[half] * float(out->int_sum[half]);
    }
  }
}

}  // namespace winnow::cpu
