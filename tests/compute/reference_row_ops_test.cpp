// Ops of the reference backend that treat every row by itself: memory, embedding, norm, activation, gather.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/compute/device_tensors.h"
#include "tests/compute/random_weight.h"

namespace winnow {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class ReferenceRowOps : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  DeviceTensors tensors_{*backend_};
};

TEST_F(ReferenceRowOps, BuffersAreAlignedZeroedCountedAndGivenBack) {
  {
    const Buffer buffer = std::move(backend_->Allocate(1000).value());
    EXPECT_EQ(backend_->bytes_allocated(), 1000);
    const Tensor tensor = buffer.View(DType::kF32, {250});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0u);
    EXPECT_EQ(tensors_.Get(tensor), std::vector<float>(250, 0.0f));
    backend_->Fill(tensor.Rows(10, 5), 0xff);
    EXPECT_EQ(FloatBits(tensors_.Get(tensor)[14]), 0xffffffffu);
    EXPECT_EQ(FloatBits(tensors_.Get(tensor)[15]), 0u);
  }
  EXPECT_EQ(backend_->bytes_allocated(), 0);
}

TEST_F(ReferenceRowOps, NamesSayWhichArithmetic) {
  EXPECT_EQ(backend_->name(), "reference");
  EXPECT_EQ(backend_->kernels(), "quantised");
  EXPECT_EQ(MakeReferenceBackend(ReferenceArithmetic::kFloat)->kernels(), "float");
}

TEST_F(ReferenceRowOps, EmbedDequantisesOwnRowsAndZeroesOthers) {
  for (ReferenceArithmetic arithmetic : {ReferenceArithmetic::kFloat, ReferenceArithmetic::kQuantised}) {
    const std::unique_ptr<Backend> backend = MakeReferenceBackend(arithmetic);
    DeviceTensors tensors(*backend);
    for (DType dtype : WeightFormats()) {
      const RandomMatrix matrix(dtype, 4, 256, 11);
      const Tensor out = tensors.Empty(DType::kF32, {5, 256});
      backend->Fill(out, 0xff);
      backend->Embed(*matrix.Pack(*backend), 100, tensors.Ints({5}, {101, 99, 103, 104, 100}), out);
      std::vector<float> expected;
      for (int64_t row : {1, -1, 3, -1, 0}) {
        const std::vector<float> values = row < 0 ? std::vector<float>(256, 0.0f) : matrix.Row(row);
        expected.insert(expected.end(), values.begin(), values.end());
      }
      const std::vector<float> got = tensors.Get(out);
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(FloatBits(got[i]), FloatBits(expected[i])) << Name(dtype) << " element " << i;
      }
    }
  }
}

TEST_F(ReferenceRowOps, RmsNormAgreesWithDoubleAndWorksInPlace) {
  const std::vector<float> x = RandomFloats(1, 3 * 96, 5), gain = RandomFloats(2, 96);
  const Tensor t = tensors_.Floats({3, 96}, x), out = tensors_.Empty(DType::kF32, {3, 96});
  const Tensor gain_tensor = tensors_.Floats({96}, gain);
  backend_->RmsNorm(t, gain_tensor, 1e-5f, out);
  backend_->RmsNorm(t, gain_tensor, 1e-5f, t);
  ExpectSameFloats(tensors_.Get(t), tensors_.Get(out));
  for (size_t r = 0; r < 3; ++r) {
    double squares = 0;
    for (size_t i = 0; i < 96; ++i) squares += double(x[r * 96 + i]) * double(x[r * 96 + i]);
    for (size_t i = 0; i < 96; ++i) {
      const double expected = double(x[r * 96 + i]) / std::sqrt(squares / 96 + 1e-5) * double(gain[i]);
      EXPECT_NEAR(tensors_.Get(out)[r * 96 + i], expected, 1e-6);
    }
  }
}

TEST_F(ReferenceRowOps, RmsNormKeepsNanInItsRow) {
  std::vector<float> x = RandomFloats(1, 2 * 32);
  x[5] = std::nanf("");
  const Tensor t = tensors_.Floats({2, 32}, x);
  backend_->RmsNorm(t, tensors_.Floats({32}, std::vector<float>(32, 1.0f)), 1e-5f, t);
  const std::vector<float> out = tensors_.Get(t);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(out[i]), i < 32) << i;
}

TEST_F(ReferenceRowOps, SiluMulAgreesWithDouble) {
  std::vector<float> gate = RandomFloats(3, 64, 20), up = RandomFloats(4, 64, 3);
  const Tensor g = tensors_.Floats({2, 32}, gate);
  backend_->SiluMul(g, tensors_.Floats({2, 32}, up));
  const std::vector<float> out = tensors_.Get(g);
  for (size_t i = 0; i < 64; ++i) {
    const double expected = double(gate[i]) / (1 + std::exp(-double(gate[i]))) * double(up[i]);
    EXPECT_NEAR(out[i], expected, 1e-6 * std::fabs(expected) + 1e-12);
  }
}

TEST_F(ReferenceRowOps, SiluMulOfExtremesIsFiniteWhereItShouldBe) {
  std::vector<float> gate(16, 0.0f);
  gate[0] = -1000;
  gate[1] = 1000;
  gate[2] = kInf;
  gate[3] = std::nanf("");
  const Tensor g = tensors_.Floats({1, 16}, gate);
  backend_->SiluMul(g, tensors_.Floats({1, 16}, std::vector<float>(16, 2.0f)));
  const std::vector<float> out = tensors_.Get(g);
  EXPECT_NEAR(out[0], 0.0f, 1e-30);
  EXPECT_EQ(out[1], 2000.0f);
  EXPECT_EQ(out[2], kInf);
  EXPECT_TRUE(std::isnan(out[3]));
  EXPECT_EQ(out[4], 0.0f);
}

TEST_F(ReferenceRowOps, AddKeepsNanInItsRow) {
  const Tensor residual = tensors_.Floats({2, 2}, {1, 2, 3, 4});
  backend_->Add(tensors_.Floats({2, 2}, {0.5f, std::nanf(""), -3, 10}), residual);
  const std::vector<float> out = tensors_.Get(residual);
  ExpectSameFloats(out, {1.5f, std::nanf(""), 0, 14});
}

TEST_F(ReferenceRowOps, AddBiasAddsTheSameToEveryRow) {
  const Tensor x = tensors_.Floats({2, 3}, {1, 2, 3, 4, std::nanf(""), 6});
  backend_->AddBias(tensors_.Floats({3}, {10, 20, -30}), x);
  ExpectSameFloats(tensors_.Get(x), {11, 22, -27, 14, std::nanf(""), -24});
}

TEST_F(ReferenceRowOps, GatherRowsCopiesInTheOrderOfIndices) {
  const Tensor x = tensors_.Floats({3, 2}, {1, 2, 3, 4, 5, 6}), out = tensors_.Empty(DType::kF32, {4, 2});
  backend_->GatherRows(x, tensors_.Ints({4}, {2, 0, 2, 1}), out);
  EXPECT_EQ(tensors_.Get(out), (std::vector<float>{5, 6, 1, 2, 5, 6, 3, 4}));
}

TEST_F(ReferenceRowOps, ZeroRowsClearsItsRowsAndNoOthers) {
  const Tensor x = tensors_.Put<int64_t>(DType::kI64, {4, 2}, {1, 2, 3, 4, 5, -6, 7, 8});
  backend_->ZeroRows(x, tensors_.Ints({3}, {2, 0, 2}));
  EXPECT_EQ(tensors_.Get<int64_t>(x), (std::vector<int64_t>{0, 0, 3, 4, 0, 0, 7, 8}));
  backend_->ZeroRows(x, tensors_.Ints({0}, {}));
  EXPECT_EQ(tensors_.Get<int64_t>(x)[7], 8);
}

TEST_F(ReferenceRowOps, ZeroRowsRefusesRowsThatDoNotExistAndOtherTypes) {
  const Tensor x = tensors_.Empty(DType::kI64, {2, 2}), floats = tensors_.Empty(DType::kF32, {2, 2});
  for (int32_t bad : {-1, 2}) {
    const Tensor indices = tensors_.Ints({1}, {bad});
    EXPECT_DEATH(backend_->ZeroRows(x, indices), "check failed");
  }
  const Tensor good = tensors_.Ints({1}, {1});
  EXPECT_DEATH(backend_->ZeroRows(floats, good), "check failed");
}

TEST_F(ReferenceRowOps, GatherRowsRefusesRowsThatDoNotExist) {
  const Tensor x = tensors_.Floats({1, 2}, {1, 2}), out = tensors_.Empty(DType::kF32, {1, 2});
  const Tensor bad = tensors_.Ints({1}, {1});
  EXPECT_DEATH(backend_->GatherRows(x, bad, out), "check failed");
}

}  // namespace
}  // namespace winnow
