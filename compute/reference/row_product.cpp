#include "compute/reference/row_product.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compute/weight_blocks.h"

namespace winnow {
namespace {

// One block of 16: d = max|x| / 127, a = x * (127 / max|x|) rounded to nearest even. 127 / max|x| overflows where
// max|x| is 0 or below 4e-37: such a block is all zero. A value that is not finite makes d NaN, and so the whole
// product.
void QuantiseBlock(const float* x, int8_t* a, float* d) {
  float top = 0;
  bool finite = true;
  for (int i = 0; i < 16; ++i) {
    finite = finite && std::isfinite(x[i]);
    top = std::max(top, std::fabs(x[i]));
  }
  if (!finite) {
    std::fill(a, a + 16, int8_t(0));
    *d = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  *d = top / 127.0f;
  float r = 127.0f / top;
  if (!std::isfinite(r)) r = 0;
  for (int i = 0; i < 16; ++i) a[i] = int8_t(std::nearbyint(x[i] * r));
}

struct BlockSums {
  int32_t dot;   // of q * a
  int32_t asum;  // of a
};

BlockSums SumBlock(const int8_t* q, const int8_t* a) {
  BlockSums sums{0, 0};
  for (int i = 0; i < 16; ++i) {
    sums.dot += int32_t(q[i]) * a[i];
    sums.asum += a[i];
  }
  return sums;
}

}  // namespace

ReferenceActivations::ReferenceActivations(const float* x, int64_t columns, ReferenceArithmetic arithmetic)
    : arithmetic_(arithmetic), x_(x, x + columns) {
  if (arithmetic == ReferenceArithmetic::kFloat) {
    x_double_.assign(x, x + columns);
    return;
  }
  a_.resize(size_t(columns));
  d_.resize(size_t(columns / 16));
  for (int64_t b = 0; b < columns / 16; ++b) QuantiseBlock(x + 16 * b, &a_[size_t(16 * b)], &d_[size_t(b)]);
}

float ReferenceActivations::Product(const ReferenceWeight& weight, int64_t n, int64_t begin, int64_t end) const {
  if (!weight.HoldsFloats()) return ProductQuantised(weight, n, begin, end);
  const float* w = &weight.values[size_t(n * weight.columns())];
  if (arithmetic_ == ReferenceArithmetic::kFloat) return ProductInDouble(w, begin, end);
  float acc = 0;
  for (int64_t k = begin; k < end; ++k) acc = std::fma(w[k], x_[size_t(k)], acc);
  return acc;
}

// Products of two floats are exact in double; rounded to float once, at the end. 8 partial sums only because one chain
// of dependent additions would make a model's test take minutes.
float ReferenceActivations::ProductInDouble(const float* w, int64_t begin, int64_t end) const {
  double acc[8] = {};
  for (int64_t k = begin; k < end; k += 8) {
    for (int i = 0; i < 8; ++i) acc[i] = std::fma(double(w[k + i]), x_double_[size_t(k + i)], acc[i]);
  }
  for (int i = 1; i < 8; ++i) acc[0] += acc[i];
  return float(acc[0]);
}

float ReferenceActivations::ProductQuantised(const ReferenceWeight& weight, int64_t n, int64_t begin,
                                             int64_t end) const {
  const WeightArithmetic form = ArithmeticOf(weight.dtype());
  const int8_t* q = &weight.q[size_t(n * weight.columns())];
  const float* scale = &weight.scale[size_t(n * weight.columns() / 16)];
  const float* min = &weight.min[size_t(n * weight.columns() / 16)];
  float acc = 0;
  for (int64_t k = begin; k < end; k += 16) {
    const float d = d_[size_t(k / 16)];
    const BlockSums sums = SumBlock(q + k, &a_[size_t(k)]);
    if (form != WeightArithmetic::kScale) acc = std::fma(min[k / 16], d * float(sums.asum), acc);
    acc = std::fma(float(sums.dot), scale[k / 16] * d, acc);
  }
  return acc;
}

}  // namespace winnow
