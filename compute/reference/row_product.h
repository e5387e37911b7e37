// The product of one row of activations with one row of a weight, over a range of columns: what MatMul and
// MatMulSegmented share. Arithmetic: compute/weight_blocks.h.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/reference/reference_backend.h"

namespace winnow {

// The activations of one row in every form that a weight may want. Values of the row are not kept by reference.
class ReferenceActivations {
 public:
  // x [columns]
  ReferenceActivations(const float* x, int64_t columns, ReferenceArithmetic arithmetic);

  // The sum over columns [begin, end), both multiples of 32, with row `n` of the weight; starts from +0.
  float Product(const ReferenceWeight& weight, int64_t n, int64_t begin, int64_t end) const;

 private:
  float ProductInDouble(const float* w, int64_t begin, int64_t end) const;
  float ProductQuantised(const ReferenceWeight& weight, int64_t n, int64_t begin, int64_t end) const;

  ReferenceArithmetic arithmetic_;
  std::vector<float> x_;
  std::vector<double> x_double_;  // kFloat only
  std::vector<int8_t> a_;         // kQuantised only: x_ in blocks of 16
  std::vector<float> d_;          // their scales
};

}  // namespace winnow
