// The CPU backends that tests compare with the reference: every kernel set, one to three threads.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "compute/backend.h"
#include "tests/compute/device_tensors.h"

namespace winnow {

struct CpuVariant {
  std::string kernels;
  int num_threads;
};

inline std::vector<CpuVariant> CpuVariants() {
  std::vector<CpuVariant> variants;
  for (const char* kernels : {"plain", "avx2"}) {
    for (int threads : {1, 2, 3}) variants.push_back({kernels, threads});
  }
  return variants;
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

  std::unique_ptr<Backend> cpu_ = std::move(MakeCpuBackend(GetParam().num_threads, GetParam().kernels).value());
  std::unique_ptr<Backend> reference_ = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
};

}  // namespace winnow
