#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "compute/reference/reference_backend.h"

namespace winnow {

void ReferenceBackend::DoFlagNotFinite(const Tensor& x, const Tensor& flags) {
  for (int64_t r = 0; r < x.dim(0); ++r) {
    const float* row = x.as<float>() + r * x.dim(1);
    flags.as<int32_t>()[r] = !std::all_of(row, row + x.dim(1), [](float value) { return std::isfinite(value); });
  }
}

void ReferenceBackend::DoGatherRows(const Tensor& x, const Tensor& indices, const Tensor& out) {
  const int64_t width = x.dim(1);
  for (int64_t i = 0; i < indices.dim(0); ++i) {
    const int64_t row = indices.as<int32_t>()[i];
    WINNOW_CHECK(row >= 0 && row < x.dim(0));
    std::copy_n(x.as<float>() + row * width, width, out.as<float>() + i * width);
  }
}

}  // namespace winnow
