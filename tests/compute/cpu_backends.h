// The CPU backends that tests compare with the reference: every kernel set that this CPU runs, and the AVX-512 kernels
// through SIMDe on any CPU ("simde", tests/compute/simde_lanes.h); one to three threads.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "compute/backend.h"
#include "compute/cpu/cpu_backend.h"
#include "tests/compute/device_tensors.h"
#include "tests/compute/simde_kernels.h"

namespace winnow {

struct CpuVariant {
  std::string kernels;
  int num_threads;
};

inline std::vector<CpuVariant> CpuVariants() {
  std::vector<CpuVariant> variants;
  for (const cpu::KernelSet& set : cpu::KernelSets()) {
    for (int threads : {1, 2, 3}) {
      if (set.runs_here) variants.push_back({set.name, threads});
    }
  }
  variants.push_back({"simde", 1});
  return variants;
}
inline std::unique_ptr<Backend> MakeVariant(const CpuVariant& variant) {
  if (variant.kernels == "simde") return std::make_unique<cpu::CpuBackend>(variant.num_threads, SimdeKernels());
  return std::move(MakeCpuBackend(variant.num_threads, variant.kernels).value());
}
inline std::string VariantName(const testing::TestParamInfo<CpuVariant>& info) {
  return info.param.kernels + std::to_string(info.param.num_threads);
}

class CpuTest : public testing::TestWithParam<CpuVariant> {
 protected:
  // run(backend, tensors) on both; the floats it returns must have the same bits.
  template <class F>
  void ExpectSameAsReference(F&& run) {
    DeviceTensors cpu_tensors(*cpu_), reference_tensors(*reference_);
    ExpectSameFloats(run(*cpu_, cpu_tensors), run(*reference_, reference_tensors));
  }

  std::unique_ptr<Backend> cpu_ = MakeVariant(GetParam());
  std::unique_ptr<Backend> reference_ = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
};

}  // namespace winnow
