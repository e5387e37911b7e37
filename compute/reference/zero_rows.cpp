#include <algorithm>

#include "base/check.h"
#include "compute/reference/reference_backend.h"

namespace winnow {

void ReferenceBackend::DoZeroRows(const Tensor& x, const Tensor& indices) {
  const int64_t width = x.dim(1);
  for (int64_t i = 0; i < indices.dim(0); ++i) {
    const int64_t row = indices.as<int32_t>()[i];
    WINNOW_CHECK(row >= 0 && row < x.dim(0));
    std::fill_n(x.as<int64_t>() + row * width, width, int64_t(0));
  }
}

}  // namespace winnow
