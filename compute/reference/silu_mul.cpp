#include "base/exact_math.h"
#include "compute/reference/reference_backend.h"

namespace winnow {

void ReferenceBackend::DoSiluMul(const Tensor& gate, const Tensor& up) {
  float* g = gate.as<float>();
  const float* u = up.as<float>();
  for (int64_t i = 0; i < gate.num_elements(); ++i) g[i] = g[i] / (1.0f + ExactExp(0.0f - g[i])) * u[i];
}

}  // namespace winnow
