// Rotation and storing of keys and values, and moving them, against the layout of kv_layout.h read byte by byte.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>

#include "compute/weight_blocks.h"
#include "tests/compute/device_tensors.h"

namespace winnow {
namespace {

constexpr int64_t kHeadDim = 32, kRows = 3, kQueryHeads = 4, kKvHeads = 2, kPages = 3;

class ReferenceRopeAppend : public testing::TestWithParam<DType> {
 protected:
  // K: [head_dim / 2][16 slots][2], then V: [16 slots][head_dim].
  float Key(const std::vector<float>& pool, int64_t slot, int64_t dim) const {
    return Element(pool, slot / 16, dim / 2 * 32 + slot % 16 * 2 + dim % 2);
  }
  float Value(const std::vector<float>& pool, int64_t slot, int64_t dim) const {
    return Element(pool, slot / 16, 16 * kHeadDim + slot % 16 * kHeadDim + dim);
  }
  float Element(const std::vector<float>& pool, int64_t page, int64_t index) const {
    index += page * 2 * 16 * kHeadDim;
    if (kv_.dtype == DType::kF32) return pool[size_t(index)];
    uint16_t bits;
    std::memcpy(&bits, reinterpret_cast<const char*>(pool.data()) + 2 * index, 2);
    return BFloat16ToFloat(bits);
  }
  float Rounded(float value) const {
    return kv_.dtype == DType::kF32 ? value : BFloat16ToFloat(FloatToBFloat16(value));
  }
  // Fills every element of the pool with its own number, small enough for bf16 to hold.
  std::vector<float> NumberedPool() const {
    std::vector<float> pool(static_cast<size_t>(kPages * kv_.page_bytes() / 4));
    for (size_t i = 0; i < pool.size(); ++i) {
      const uint32_t low = 0x4000 + uint32_t(2 * i), high = low + 1;
      pool[i] = kv_.dtype == DType::kF32 ? float(i) : __builtin_bit_cast(float, low | high << 16);
    }
    return pool;
  }

  const KvLayout kv_{kHeadDim, GetParam()};
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  DeviceTensors tensors_{*backend_};
  const Tensor pages_ = tensors_.Empty(DType::kF32, {kPages * kv_.page_bytes() / 4});
};

TEST_P(ReferenceRopeAppend, TurnsPairsByTheAngleOfThePositionAndStoresThem) {
  const std::vector<float> q = RandomFloats(1, kRows * kQueryHeads * kHeadDim);
  const std::vector<float> k = RandomFloats(2, kRows * kKvHeads * kHeadDim);
  const std::vector<float> v = RandomFloats(3, kRows * kKvHeads * kHeadDim);
  std::vector<float> cos_sin;
  const auto angle = [](int64_t row, int64_t i) { return double(1000 + row) * std::pow(10000.0, -double(2 * i) / 32); };
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t i = 0; i < 16; ++i) cos_sin.push_back(float(std::cos(angle(r, i))));
    for (int64_t i = 0; i < 16; ++i) cos_sin.push_back(float(std::sin(angle(r, i))));
  }
  const std::vector<int32_t> slots = {35, 0, 36, 1, 16, 15};
  const Tensor q_tensor = tensors_.Floats({kRows, kQueryHeads, kHeadDim}, q);
  backend_->Fill(pages_, 0xff);
  backend_->RopeAppend({q_tensor, tensors_.Floats({kRows, kKvHeads, kHeadDim}, k),
                        tensors_.Floats({kRows, kKvHeads, kHeadDim}, v), tensors_.Floats({kRows, kHeadDim}, cos_sin),
                        tensors_.Ints({kRows, kKvHeads}, slots), pages_, kv_, 0.25f});
  const std::vector<float> pool = tensors_.Get(pages_);
  const std::vector<float> turned_q = tensors_.Get(q_tensor);
  const double tolerance = GetParam() == DType::kF32 ? 1e-6 : 1.0 / 128;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t i = 0; i < 16; ++i) {
      const std::complex<double> turn = std::polar(1.0, angle(r, i));
      for (int64_t h = 0; h < kQueryHeads; ++h) {
        const size_t at = size_t((r * kQueryHeads + h) * kHeadDim + i);
        const std::complex<double> z = std::complex<double>(q[at], q[at + 16]) * turn * 0.25;
        EXPECT_NEAR(turned_q[at], z.real(), 1e-6);
        EXPECT_NEAR(turned_q[at + 16], z.imag(), 1e-6);
      }
      for (int64_t h = 0; h < kKvHeads; ++h) {
        const size_t at = size_t((r * kKvHeads + h) * kHeadDim + i);
        const int64_t slot = slots[size_t(r * kKvHeads + h)];
        const std::complex<double> z = std::complex<double>(k[at], k[at + 16]) * turn;
        EXPECT_NEAR(Key(pool, slot, i), z.real(), tolerance);
        EXPECT_NEAR(Key(pool, slot, i + 16), z.imag(), tolerance);
        EXPECT_EQ(Value(pool, slot, i), Rounded(v[at]));
        EXPECT_EQ(Value(pool, slot, i + 16), Rounded(v[at + 16]));
      }
    }
  }
  for (int64_t slot : {2, 14, 17, 34, 37, 47}) {
    for (int64_t i = 0; i < kHeadDim; ++i) {
      EXPECT_TRUE(std::isnan(Key(pool, slot, i)) && std::isnan(Value(pool, slot, i))) << "slot " << slot;
    }
  }
}

TEST_P(ReferenceRopeAppend, RefusesSlotsOutsideThePool) {
  const Tensor one = tensors_.Floats({1, 1, kHeadDim}, std::vector<float>(kHeadDim, 1.0f));
  const Tensor cos_sin = tensors_.Floats({1, kHeadDim}, std::vector<float>(kHeadDim, 0.0f));
  for (int32_t slot : {-1, int32_t(kPages * 16)}) {
    const Tensor slots = tensors_.Ints({1, 1}, {slot});
    EXPECT_DEATH(backend_->RopeAppend({one, one, one, cos_sin, slots, pages_, kv_, 1.0f}), "check failed");
  }
}

TEST_P(ReferenceRopeAppend, CompactMovesSlotsInOrderAndLeavesOthers) {
  const std::vector<float> before = NumberedPool();
  backend_->CopyToDevice(pages_, std::as_bytes(std::span(before)));
  // The second move takes what the first one wrote; the last one stays where it is.
  backend_->Compact({tensors_.Ints({4, 2}, {40, 3, 3, 16, 20, 4, 7, 7}), pages_, kv_});
  const std::vector<float> after = tensors_.Get(pages_);
  for (int64_t slot = 0; slot < kPages * 16; ++slot) {
    const int64_t source = slot == 3 || slot == 16 ? 40 : slot == 4 ? 20 : slot;
    for (int64_t dim = 0; dim < kHeadDim; ++dim) {
      ASSERT_EQ(Key(after, slot, dim), Key(before, source, dim)) << "slot " << slot << " dimension " << dim;
      ASSERT_EQ(Value(after, slot, dim), Value(before, source, dim)) << "slot " << slot << " dimension " << dim;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ReferenceRopeAppend, testing::Values(DType::kBF16, DType::kF32),
                         [](const auto& dtype) { return std::string(Name(dtype.param)); });

}  // namespace
}  // namespace winnow
