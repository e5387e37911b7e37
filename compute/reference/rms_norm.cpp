#include <cmath>
#include <limits>

#include "compute/reference/lanes.h"
#include "compute/reference/reference_backend.h"

namespace winnow {

// Lane j adds the squares of inputs j, j + 16, ... in order.
void ReferenceBackend::DoRmsNorm(const Tensor& x, const Tensor& gain, float epsilon, const Tensor& out) {
  const int64_t width = x.dim(1);
  for (int64_t r = 0; r < x.dim(0); ++r) {
    const float* from = x.as<float>() + r * width;
    float* to = out.as<float>() + r * width;
    float acc[kLanes] = {};
    for (int64_t i = 0; i < width; ++i) acc[i % kLanes] = std::fma(from[i], from[i], acc[i % kLanes]);
    const float sum = SumLanes(acc);
    const float scale =
        std::isfinite(sum) ? 1.0f / std::sqrt(sum / float(width) + epsilon) : std::numeric_limits<float>::quiet_NaN();
    for (int64_t i = 0; i < width; ++i) to[i] = from[i] * scale * gain.as<float>()[i];
  }
}

}  // namespace winnow
