#include "policies/row_products.h"

#include <cmath>
#include <cstring>

namespace winnow {

void RowProducts(const float* factors, const float* values, const ProductStrides& strides, int64_t num_steps,
                 float (&out)[kProductRows][kProductLanes]) {
  // Four arrays by name and not one of two dimensions: g++ 12 keeps these in registers, and writes the other to memory
  // at every step, which takes three times as long.
  float row0[kProductLanes] = {}, row1[kProductLanes] = {}, row2[kProductLanes] = {}, row3[kProductLanes] = {};
  for (int64_t step = 0; step < num_steps; ++step) {
    const float* factor = factors + step * strides.factor_stride;
    const float* value = values + step * strides.value_stride;
    const float factor0 = factor[0], factor1 = factor[strides.row_stride];
    const float factor2 = factor[2 * strides.row_stride], factor3 = factor[3 * strides.row_stride];
    for (int64_t lane = 0; lane < kProductLanes; ++lane) row0[lane] = std::fma(factor0, value[lane], row0[lane]);
    for (int64_t lane = 0; lane < kProductLanes; ++lane) row1[lane] = std::fma(factor1, value[lane], row1[lane]);
    for (int64_t lane = 0; lane < kProductLanes; ++lane) row2[lane] = std::fma(factor2, value[lane], row2[lane]);
    for (int64_t lane = 0; lane < kProductLanes; ++lane) row3[lane] = std::fma(factor3, value[lane], row3[lane]);
  }
  std::memcpy(out[0], row0, sizeof(row0));
  std::memcpy(out[1], row1, sizeof(row1));
  std::memcpy(out[2], row2, sizeof(row2));
  std::memcpy(out[3], row3, sizeof(row3));
}

}  // namespace winnow
