// For tests of ops: device tensors made from host vectors and read back, and random numbers that are the same on every
// machine.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "base/philox.h"
#include "compute/backend.h"

namespace winnow {

// Owns the buffers of one test. The backend must outlive it.
class DeviceTensors {
 public:
  explicit DeviceTensors(Backend& backend) : backend_(backend) {}

  template <class T>
  Tensor Put(DType dtype, std::initializer_list<int64_t> shape, const std::vector<T>& values) {
    const Tensor tensor = Empty(dtype, shape);
    EXPECT_EQ(tensor.num_elements(), int64_t(values.size()));
    backend_.CopyToDevice(tensor, std::as_bytes(std::span(values)));
    return tensor;
  }
  Tensor Floats(std::initializer_list<int64_t> shape, const std::vector<float>& values) {
    return Put(DType::kF32, shape, values);
  }
  Tensor Ints(std::initializer_list<int64_t> shape, const std::vector<int32_t>& values) {
    return Put(DType::kI32, shape, values);
  }
  Tensor Empty(DType dtype, std::initializer_list<int64_t> shape) {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    buffers_.push_back(std::move(backend_.Allocate(BytesOf(dtype, count)).value()));
    return buffers_.back().View(dtype, shape);
  }
  template <class T = float>
  std::vector<T> Get(const Tensor& tensor) {
    std::vector<T> values(static_cast<size_t>(tensor.num_elements()));
    backend_.CopyToHost(std::as_writable_bytes(std::span(values)), tensor);
    return values;
  }

 private:
  Backend& backend_;
  std::vector<Buffer> buffers_;
};

inline uint32_t RandomBits(uint64_t seed, int64_t index) {
  return Philox(seed, {uint32_t(index), 0, 0, uint32_t(RandomPurpose::kTestWeights)})[0];
}

// Uniform in (-scale, scale).
inline std::vector<float> RandomFloats(uint64_t seed, int64_t count, float scale = 1) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back((2 * OpenUnitFloat(RandomBits(seed, i)) - 1) * scale);
  return values;
}

inline uint32_t FloatBits(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

// Equal bits, except that any NaN equals any NaN: which of two NaN operands an instruction passes on is not ours.
inline bool SameFloat(float a, float b) {
  return FloatBits(a) == FloatBits(b) || (std::isnan(a) && std::isnan(b));
}
inline void ExpectSameFloats(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(SameFloat(got[i], want[i])) << "element " << i << ": " << got[i] << " and " << want[i];
  }
}

}  // namespace winnow
