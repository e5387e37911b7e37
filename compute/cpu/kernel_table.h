// The table of kernels of one kind of lanes. Included by kernels_<instruction set>.cpp only.
#pragma once

#include "compute/cpu/attention.h"
#include "compute/cpu/attention_mass.h"
#include "compute/cpu/attention_peaks.h"
#include "compute/cpu/kernels.h"
#include "compute/cpu/mat_mul.h"
#include "compute/cpu/quantise.h"
#include "compute/cpu/row_ops.h"

namespace winnow::cpu {

template <class L>
constexpr CpuKernels MakeKernels() {
  return {.name = L::kName,
          .quantise = Quantise<L>,
          .mat_mul = MatMulTiles<L>,
          .attend_block = AttendBlock<L>,
          .merge_blocks = MergeBlocks<L>,
          .add_mass = AddMass<L>,
          .raise_peaks = RaisePeaks<L>,
          .rms_norm = RmsNormRow<L>,
          .silu_mul = SiluMulRow<L>,
          .add_sums = AddSumsRow<L>};
}

}  // namespace winnow::cpu
