#include <algorithm>

#include "base/check.h"
#include "compute/reference/reference_backend.h"

namespace winnow {

void ReferenceBackend::DoGatherRows(const Tensor& x, const Tensor& indices, const Tensor& out) {
  const int64_t width = x.dim(1);
  for (int64_t i = 0; i < indices.dim(0); ++i) {
    const int64_t row = indices.as<int32_t>()[i];
    WINNOW_CHECK(row >= 0 && row < x.dim(0));
    std::copy_n(x.as<float>() + row * width, width, out.as<float>() + i * width);
  }
}

}  // namespace winnow
