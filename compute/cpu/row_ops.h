// RmsNorm, SiluMul and AddFixedPoint of one row.
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

// to[i] += float(sums[i]) * unit, with one rounding from integer to float.
template <class L>
void AddSumsRow(const int64_t* sums, float unit, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const auto sum = L::LoadInt64(sums + i);
    if (!L::FitsDouble(sum)) [[unlikely]] {
      for (int64_t j = i; j < i + 16; ++j) to[j] += float(sums[j]) * unit;
      continue;
    }
    L::Store(to + i, L::Add(L::Load(to + i), L::Mul(L::ToFloat(sum), L::Set(unit))));
  }
  for (; i < n; ++i) to[i] += float(sums[i]) * unit;
}

}  // namespace winnow::cpu
