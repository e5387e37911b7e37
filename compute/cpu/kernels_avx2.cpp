#include "compute/cpu/kernel_table.h"
#include "compute/cpu/lanes_avx2.h"

namespace winnow::cpu {

const CpuKernels& Avx2Kernels() {
  static constexpr CpuKernels kKernels = MakeKernels<Avx2Lanes>();
  return kKernels;
}

}  // namespace winnow::cpu
