#define WINNOW_UNROLL
#include "compute/cpu/kernel_table.h"
#include "compute/cpu/lanes_plain.h"

namespace winnow::cpu {

const CpuKernels& PlainKernels() {
  static constexpr CpuKernels kKernels = MakeKernels<PlainLanes>();
  return kKernels;
}

}  // namespace winnow::cpu
