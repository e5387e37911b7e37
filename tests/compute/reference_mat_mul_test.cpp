// Products of the reference backend against sums in double over de-quantised weights.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/compute/device_tensors.h"
#include "tests/compute/random_weight.h"

namespace winnow {
namespace {

constexpr FixedPoint kFixed = {0x1p36f, 0x1p20f};
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> MatMul(Backend& backend, const RandomMatrix& matrix, const std::vector<float>& x) {
  DeviceTensors tensors(backend);
  const int64_t rows = int64_t(x.size()) / matrix.columns();
  const std::unique_ptr<Weight> weight = matrix.Pack(backend);
  const Tensor out = tensors.Empty(DType::kF32, {rows, matrix.rows()});
  const MatMulTarget target{weight.get(), out};
  backend.MatMul(tensors.Floats({rows, matrix.columns()}, x), {&target, 1});
  return tensors.Get(out);
}

std::vector<int64_t> Segmented(Backend& backend, const Weight& weight, const std::vector<float>& x, int64_t segment) {
  DeviceTensors tensors(backend);
  const int64_t rows = int64_t(x.size()) / weight.columns();
  const Tensor sums = tensors.Empty(DType::kI64, {rows, weight.rows() + 1});
  backend.Fill(sums, 0xff);  // must be overwritten
  backend.MatMulSegmented(tensors.Floats({rows, weight.columns()}, x), weight, segment, kFixed, sums);
  return tensors.Get<int64_t>(sums);
}

class ReferenceMatMul : public testing::TestWithParam<DType> {
 protected:
  std::unique_ptr<Backend> float_ = MakeReferenceBackend(ReferenceArithmetic::kFloat);
  std::unique_ptr<Backend> quantised_ = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  const RandomMatrix matrix_{GetParam(), 5, 512, 7};
  const std::vector<float> x_ = RandomFloats(8, 3 * 512, 2.0f);
};

TEST_P(ReferenceMatMul, FloatIsTheDoubleSumRoundedOnce) {
  const std::vector<float> out = MatMul(*float_, matrix_, x_);
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t n = 0; n < 5; ++n) {
      const std::vector<float> w = matrix_.Row(n);
      double sum = 0, magnitude = 0;
      for (size_t k = 0; k < 512; ++k) {
        sum += double(w[k]) * double(x_[size_t(r) * 512 + k]);
        magnitude += std::fabs(double(w[k]) * double(x_[size_t(r) * 512 + k]));
      }
      EXPECT_NEAR(out[size_t(r * 5 + n)], sum, 0x1p-24 * std::fabs(sum) + 1e-13 * magnitude);
    }
  }
}

TEST_P(ReferenceMatMul, QuantisedDiffersFromTheTruthByTheRoundingOfActivationsOnly) {
  const std::vector<float> out = MatMul(*quantised_, matrix_, x_);
  const bool rounds = ArithmeticOf(GetParam()) != WeightArithmetic::kFloat;
  for (size_t r = 0; r < 3; ++r) {
    for (int64_t n = 0; n < 5; ++n) {
      const std::vector<float> w = matrix_.Row(n);
      double sum = 0, bound = 0;
      for (size_t block = 0; block < 512; block += 16) {
        double top = 0;
        for (size_t k = block; k < block + 16; ++k) top = std::max(top, double(std::fabs(x_[r * 512 + k])));
        for (size_t k = block; k < block + 16; ++k) {
          sum += double(w[k]) * double(x_[r * 512 + k]);
          bound += std::fabs(double(w[k])) * (rounds ? top / 127 * 0.501 : 0) + 1e-6 * std::fabs(double(w[k])) * top;
        }
      }
      EXPECT_NEAR(out[r * 5 + size_t(n)], sum, bound);
    }
  }
}

// With integers up to 127 as activations nothing is rounded when they are quantised.
TEST_P(ReferenceMatMul, QuantisedIsExactToFloatRoundingForActivationsThatAreIntegers) {
  std::vector<float> x;
  for (int64_t k = 0; k < 512; ++k) x.push_back(k % 16 == 5 ? 127.0f : float(int(RandomBits(9, k) % 255) - 127));
  const std::vector<float> out = MatMul(*quantised_, matrix_, x);
  for (int64_t n = 0; n < 5; ++n) {
    const std::vector<float> w = matrix_.Row(n);
    double sum = 0, magnitude = 0;
    for (size_t k = 0; k < 512; ++k) {
      sum += double(w[k]) * double(x[k]);
      magnitude += std::fabs(double(w[k]) * double(x[k]));
    }
    EXPECT_NEAR(out[size_t(n)], sum, 2e-6 * magnitude);
  }
}

TEST_P(ReferenceMatMul, ARowHasTheSameBitsAloneAndInABatch) {
  for (Backend* backend : {float_.get(), quantised_.get()}) {
    const std::vector<float> batch = MatMul(*backend, matrix_, x_);
    const std::vector<float> alone = MatMul(*backend, matrix_, {x_.begin() + 512, x_.begin() + 1024});
    ExpectSameFloats(alone, {batch.begin() + 5, batch.begin() + 10});
  }
}

TEST_P(ReferenceMatMul, BadActivationsStayInTheirRow) {
  for (Backend* backend : {float_.get(), quantised_.get()}) {
    const std::vector<float> good = MatMul(*backend, matrix_, x_);
    for (float bad : {std::nanf(""), kInf, -kInf}) {
      std::vector<float> x = x_;
      x[512 + 77] = bad;
      const std::vector<float> out = MatMul(*backend, matrix_, x);
      for (size_t i = 0; i < 15; ++i) {
        if (i / 5 == 1) {
          EXPECT_FALSE(std::isfinite(out[i]) && FloatBits(out[i]) == FloatBits(good[i])) << i;
        } else {
          EXPECT_EQ(FloatBits(out[i]), FloatBits(good[i])) << i;
        }
      }
    }
  }
}

TEST_P(ReferenceMatMul, SegmentedSumsAgreeWithTheWholeProduct) {
  for (Backend* backend : {float_.get(), quantised_.get()}) {
    const std::vector<float> whole = MatMul(*backend, matrix_, x_);
    const std::vector<int64_t> sums = Segmented(*backend, *matrix_.Pack(*backend), x_, 64);
    for (size_t r = 0; r < 3; ++r) {
      for (size_t n = 0; n < 5; ++n) {
        EXPECT_NEAR(double(sums[r * 6 + n]) * 0x1p-36, whole[r * 5 + n], 1e-4 * (1 + std::fabs(whole[r * 5 + n])));
      }
      EXPECT_EQ(sums[r * 6 + 5], 0);
    }
  }
}

TEST_P(ReferenceMatMul, SegmentedSumsDoNotDependOnHowRanksCutTheColumns) {
  for (Backend* backend : {float_.get(), quantised_.get()}) {
    const std::vector<int64_t> one_rank = Segmented(*backend, *matrix_.Pack(*backend), x_, 128);
    std::vector<int64_t> two_ranks(one_rank.size());
    for (int64_t begin : {0, 256}) {
      std::vector<float> part;
      for (size_t r = 0; r < 3; ++r) {
        part.insert(part.end(), x_.begin() + int64_t(r) * 512 + begin, x_.begin() + int64_t(r) * 512 + begin + 256);
      }
      const auto weight = matrix_.PackColumns(*backend, begin, begin + 256);
      const std::vector<int64_t> sums = Segmented(*backend, *weight, part, 128);
      for (size_t i = 0; i < sums.size(); ++i) two_ranks[i] += sums[i];
    }
    EXPECT_EQ(one_rank, two_ranks);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ReferenceMatMul, testing::ValuesIn(WeightFormats()),
                         [](const auto& format) { return std::string(Name(format.param)); });

class ReferenceMatMulOnce : public testing::TestWithParam<ReferenceArithmetic> {
 protected:
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend(GetParam());
  const RandomMatrix matrix_{DType::kQ4_1, 5, 256, 3};
};

TEST_P(ReferenceMatMulOnce, PartialsOutOfRangeOrNanMarkTheirRowAndContributeNothing) {
  std::vector<float> x = RandomFloats(4, 4 * 256);
  const auto weight = matrix_.Pack(*backend_);
  const std::vector<int64_t> good = Segmented(*backend_, *weight, x, 64);
  x[256 + 70] = 1e12f;  // one segment of row 1
  x[512 + 10] = x[512 + 250] = std::nanf("");
  const std::vector<int64_t> sums = Segmented(*backend_, *weight, x, 64);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(sums[i], good[i]);
    EXPECT_EQ(sums[18 + i], good[18 + i]);
  }
  EXPECT_EQ(sums[6 + 5], 5);
  EXPECT_EQ(sums[12 + 5], 10);
  for (size_t n = 0; n < 5; ++n) EXPECT_LT(std::llabs(sums[6 + n]), int64_t(1) << 60);
}

TEST_P(ReferenceMatMulOnce, ActivationsTooSmallToDivideBy127AreHarmless) {
  std::vector<float> x = RandomFloats(5, 256);
  for (size_t k = 32; k < 64; ++k) x[k] *= 1e-42f;
  std::vector<float> zero = x;
  for (size_t k = 32; k < 64; ++k) zero[k] = 0;
  const std::vector<float> out = MatMul(*backend_, matrix_, x), expected = MatMul(*backend_, matrix_, zero);
  for (size_t n = 0; n < 5; ++n) EXPECT_NEAR(out[n], expected[n], 1e-6);
}

TEST_P(ReferenceMatMulOnce, PackTakesRowsInTheGivenOrderAndWorkIsCounted) {
  WeightSource source = matrix_.Source();
  source.rows = {4, 0, 4};
  const std::unique_ptr<Weight> weight = std::move(backend_->Pack(source).value());
  const std::unique_ptr<Weight> all = matrix_.Pack(*backend_);
  EXPECT_EQ(weight->rows(), 3);
  EXPECT_EQ(weight->dtype(), DType::kQ4_1);
  EXPECT_GT(weight->bytes(), 0);
  DeviceTensors tensors(*backend_);
  const Tensor x = tensors.Floats({1, 256}, RandomFloats(6, 256));
  const MatMulTarget targets[] = {{weight.get(), tensors.Empty(DType::kF32, {1, 3})},
                                  {all.get(), tensors.Empty(DType::kF32, {1, 5})}};
  backend_->MatMul(x, targets);
  EXPECT_EQ(backend_->work().matmul_flops, 2 * 256 * (3 + 5));
  const std::vector<float> some = tensors.Get(targets[0].out), every = tensors.Get(targets[1].out);
  ExpectSameFloats(some, {every[4], every[0], every[4]});
}

TEST_P(ReferenceMatMulOnce, AddFixedPointRoundsOnceAndEndsBadRowsOnly) {
  DeviceTensors tensors(*backend_);
  const std::vector<int64_t> sums = {int64_t(3) << 35, (int64_t(1) << 60) + 1, -5, 0, 1 << 20, 1 << 21, 1 << 22, 2};
  const Tensor residual = tensors.Floats({2, 3}, {1.0f, 0.0f, 0.0f, 1.0f, 2.0f, 3.0f});
  backend_->AddFixedPoint(tensors.Put(DType::kI64, {2, 4}, sums), kFixed, residual);
  const std::vector<float> out = tensors.Get(residual);
  EXPECT_EQ(out[0], 2.5f);
  EXPECT_EQ(out[1], 0x1p24f);
  EXPECT_EQ(out[2], -5 * 0x1p-36f);
  for (size_t i = 3; i < 6; ++i) EXPECT_EQ(FloatBits(out[i]), 0x7fc00000u);
}

INSTANTIATE_TEST_SUITE_P(Arithmetic, ReferenceMatMulOnce,
                         testing::Values(ReferenceArithmetic::kFloat, ReferenceArithmetic::kQuantised),
                         [](const auto& format) {
                           return std::string(format.param == ReferenceArithmetic::kFloat ? "Float" : "Quantised");
                         });

}  // namespace
}  // namespace winnow
