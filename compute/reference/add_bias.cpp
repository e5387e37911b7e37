#include "compute/reference/reference_backend.h"

namespace winnow {

void ReferenceBackend::DoAddBias(const Tensor& bias, const Tensor& x) {
  const int64_t width = x.dim(1);
  for (int64_t i = 0; i < x.num_elements(); ++i) x.as<float>()[i] += bias.as<float>()[i % width];
}

}  // namespace winnow
