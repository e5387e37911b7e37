// Which sets of kernels there are, and which of them this CPU runs.
#include "compute/cpu/kernels.h"

namespace winnow::cpu {

std::span<const KernelSet> KernelSets() {
  // __builtin_cpu_supports also asks whether the system saves the wide registers.
  static const KernelSet kSets[] = {
      {"avx512",
       __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni"),
       Avx512Kernels},
      {"avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), Avx2Kernels},
      {"plain", true, PlainKernels},
  };
  return kSets;
}

}  // namespace winnow::cpu
