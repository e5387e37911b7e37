#include <algorithm>
#include <limits>

#include "compute/reference/reference_backend.h"

namespace winnow {

// float(sum) rounds once, to nearest even; steps_per_unit is a power of two, so its reciprocal is exact.
void ReferenceBackend::DoAddFixedPoint(const Tensor& sums, FixedPoint fixed_point, const Tensor& residual) {
  const int64_t width = residual.dim(1);
  const float unit = 1.0f / fixed_point.steps_per_unit;
  for (int64_t r = 0; r < residual.dim(0); ++r) {
    const int64_t* from = sums.as<int64_t>() + r * (width + 1);
    float* to = residual.as<float>() + r * width;
    if (from[width] != 0) {
      std::fill(to, to + width, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    for (int64_t n = 0; n < width; ++n) to[n] += float(from[n]) * unit;
  }
}

void ReferenceBackend::DoAdd(const Tensor& x, const Tensor& residual) {
  for (int64_t i = 0; i < x.num_elements(); ++i) residual.as<float>()[i] += x.as<float>()[i];
}

}  // namespace winnow
