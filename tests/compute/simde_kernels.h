// All kernels over the AVX-512 lanes, runnable on any CPU (tests/compute/simde_lanes.h says how and what that proves).
#pragma once

#include "compute/cpu/kernels.h"

namespace winnow {

const cpu::CpuKernels& SimdeKernels();

}  // namespace winnow
