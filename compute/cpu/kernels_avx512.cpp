// Compiled with AVX-512 switched on (compute/CMakeLists.txt). No function that other files share may be emitted from
// here: the linker would be free to take this copy of it for all, and CPUs without AVX-512 would stop on it.
// tests/architecture/check_wide_symbols looks at the object file.
#include "compute/cpu/kernel_table.h"
#include "compute/cpu/lanes_avx512.h"

namespace winnow::cpu {

const CpuKernels& Avx512Kernels() {
  static constexpr CpuKernels kKernels = MakeKernels<Avx512Lanes>();
  return kKernels;
}

}  // namespace winnow::cpu
