// RmsNorm and SiluMul of one row.
#pragma once

#include <cmath>
#include <limits>

#include "compute/cpu/exp.h"
#include "compute/cpu/kernels.h"

namespace winnow::cpu {

template <class L>
void RmsNormRow(const float* x, const float* gain, float epsilon, int64_t n, float* out) {
  auto acc = L::Set(0.0f);
  for (int64_t i = 0; i < n; i += 16) {
    const auto v = L::Load(x + i);
    acc = L::Fma(v, v, acc);
  }
  const float sum = L::SumLanes(acc);
  const bool overflows = !(sum < std::numeric_limits<float>::infinity());
  const auto scale =
      L::Set(overflows ? std::numeric_limits<float>::quiet_NaN() : 1.0f / std::sqrt(sum / float(n) + epsilon));
  for (int64_t i = 0; i < n; i += 16) L::Store(out + i, L::Mul(L::Mul(L::Load(x + i), scale), L::Load(gain + i)));
}

template <class L>
void SiluMulRow(float* gate, const float* up, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const auto g = L::Load(gate + i);
    const auto e = Exp<L>(L::Sub(L::Set(0.0f), g));
    L::Store(gate + i, L::Mul(L::Div(g, L::Add(L::Set(1.0f), e)), L::Load(up + i)));
  }
}

}  // namespace winnow::cpu
