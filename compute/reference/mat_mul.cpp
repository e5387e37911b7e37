#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "compute/reference/reference_backend.h"
#include "compute/reference/row_product.h"

namespace winnow {
namespace {

std::vector<ReferenceActivations> TakeRows(const Tensor& x, ReferenceArithmetic arithmetic) {
  std::vector<ReferenceActivations> rows;
  for (int64_t r = 0; r < x.dim(0); ++r) rows.emplace_back(x.as<float>() + r * x.dim(1), x.dim(1), arithmetic);
  return rows;
}

}  // namespace

void ReferenceBackend::DoMatMul(const Tensor& x, std::span<const MatMulTarget> targets) {
  const std::vector<ReferenceActivations> rows = TakeRows(x, arithmetic_);
  for (const MatMulTarget& target : targets) {
    const auto& weight = static_cast<const ReferenceWeight&>(*target.weight);
    for (int64_t n = 0; n < weight.rows(); ++n) {
      for (size_t r = 0; r < rows.size(); ++r) {
        target.out.as<float>()[int64_t(r) * weight.rows() + n] = rows[r].Product(weight, n, 0, weight.columns());
      }
    }
  }
}

// A segment's float sum, not the whole row's, becomes an integer: which rank holds the segment then changes no bit.
void ReferenceBackend::DoMatMulSegmented(const Tensor& x, const Weight& packed, int64_t segment_columns,
                                         FixedPoint fixed_point, const Tensor& sums) {
  WINNOW_CHECK(double(fixed_point.limit) * double(fixed_point.steps_per_unit) < 0x1p63);
  const std::vector<ReferenceActivations> rows = TakeRows(x, arithmetic_);
  const auto& weight = static_cast<const ReferenceWeight&>(packed);
  const int64_t width = weight.rows() + 1;
  std::fill_n(sums.as<int64_t>(), x.dim(0) * width, int64_t(0));
  for (int64_t n = 0; n < weight.rows(); ++n) {
    for (size_t r = 0; r < rows.size(); ++r) {
      int64_t* row_sums = sums.as<int64_t>() + int64_t(r) * width;
      for (int64_t begin = 0; begin < weight.columns(); begin += segment_columns) {
        const float partial = rows[r].Product(weight, n, begin, begin + segment_columns);
        if (std::fabs(partial) < fixed_point.limit) {
          row_sums[n] += std::llrint(partial * fixed_point.steps_per_unit);  // nearest even
        } else {  // too large or NaN: counted, and contributes 0
          ++row_sums[weight.rows()];
        }
      }
    }
  }
}

}  // namespace winnow
