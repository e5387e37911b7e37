#include <algorithm>

#include "compute/reference/reference_backend.h"

namespace winnow {

// scale * q is rounded before min is added, as DequantiseRow does; formats without a minimum have min = -0.
void ReferenceBackend::DoEmbed(const Weight& table, int64_t first_row, const Tensor& ids, const Tensor& out) {
  const auto& weight = static_cast<const ReferenceWeight&>(table);
  const int64_t columns = weight.columns();
  for (int64_t i = 0; i < ids.dim(0); ++i) {
    const int64_t row = ids.as<int32_t>()[i] - first_row;
    float* to = out.as<float>() + i * columns;
    if (row < 0 || row >= weight.rows()) {
      std::fill(to, to + columns, 0.0f);
    } else if (weight.HoldsFloats()) {
      std::copy_n(&weight.values[size_t(row * columns)], columns, to);
    } else {
      for (int64_t c = 0; c < columns; ++c) {
        const size_t sub = size_t((row * columns + c) / 16);
        to[c] = weight.scale[sub] * float(weight.q[size_t(row * columns + c)]) + weight.min[sub];
      }
    }
  }
}

}  // namespace winnow
