#include "tests/compute/simde_kernels.h"

#define WINNOW_UNROLL  // nothing to keep in registers: every operation is a call here
#include "compute/cpu/kernel_table.h"
#include "tests/compute/simde_lanes.h"

namespace winnow {

const cpu::CpuKernels& SimdeKernels() {
  static constexpr cpu::CpuKernels kKernels = cpu::MakeKernels<cpu::SimdeLanes>();
  return kKernels;
}

}  // namespace winnow
