// Four rows times sixteen columns of a matrix product, the inner loop of policies that are quadratic in the slots or in
// the head's size. Any thread.
#pragma once

#include <cstdint>

namespace winnow {

constexpr int64_t kProductRows = 4;
constexpr int64_t kProductLanes = 16;  // 4 x 16 running sums fill half of the vector registers

// Where the rows and the columns lie: factors[row * row_stride + step * factor_stride], values[step * value_stride +
// lane].
struct ProductStrides {
  int64_t row_stride, factor_stride, value_stride;
};

// out[row][lane] = the sum over steps 0 .. num_steps - 1 of factor * value, one fma a step from +0 on, in order: the
// bits of a plain loop.
void RowProducts(const float* factors, const float* values, const ProductStrides& strides, int64_t num_steps,
                 float (&out)[kProductRows][kProductLanes]);

}  // namespace winnow
