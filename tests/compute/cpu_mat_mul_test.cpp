// Matrix products of the CPU backend against the reference in the same arithmetic, by bits.
#include <gtest/gtest.h>

#include <limits>

#include "tests/compute/cpu_backends.h"
#include "tests/compute/random_weight.h"

namespace winnow {
namespace {

constexpr int64_t kColumns = 512;
constexpr FixedPoint kFixedPoint = {0x1p36f, 0x1p20f};

class CpuMatMul : public CpuTest {};
INSTANTIATE_TEST_SUITE_P(Kernels, CpuMatMul, testing::ValuesIn(CpuVariants()), VariantName);

std::vector<float> Product(Backend& backend, DeviceTensors& tensors, const RandomMatrix& matrix,
                           const std::vector<float>& x) {
  const auto weight = matrix.Pack(backend);
  const int64_t rows = int64_t(x.size()) / matrix.columns();
  const Tensor out = tensors.Empty(DType::kF32, {rows, matrix.rows()});
  backend.MatMul(tensors.Floats({rows, matrix.columns()}, x), std::vector<MatMulTarget>{{weight.get(), out}});
  return tensors.Get(out);
}

std::vector<int64_t> SegmentedSums(Backend& backend, const RandomMatrix& matrix, const std::vector<float>& x,
                                   int64_t segment_columns, FixedPoint fixed_point = kFixedPoint) {
  DeviceTensors tensors(backend);
  const auto weight = matrix.Pack(backend);
  const int64_t rows = int64_t(x.size()) / matrix.columns();
  const Tensor sums = tensors.Empty(DType::kI64, {rows, matrix.rows() + 1});
  backend.Fill(sums, 0xff);
  backend.MatMulSegmented(tensors.Floats({rows, matrix.columns()}, x), *weight, segment_columns, fixed_point, sums);
  return tensors.Get<int64_t>(sums);
}

TEST_P(CpuMatMul, HasTheBitsOfTheReferenceInEveryFormatForAnyNumberOfRows) {
  for (DType dtype : WeightFormats()) {
    SCOPED_TRACE(std::string(Name(dtype)));
    const RandomMatrix matrix(dtype, 39, kColumns, 7);
    for (int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 33}) {
      SCOPED_TRACE(rows);
      const std::vector<float> x = RandomFloats(uint64_t(rows), rows * kColumns, 2);
      ExpectSameAsReference([&](Backend& b, DeviceTensors& t) { return Product(b, t, matrix, x); });
    }
  }
}

TEST_P(CpuMatMul, TakesAnyNumberOfOutputs) {
  for (int64_t outputs : {1, 15, 16, 17, 32, 100}) {
    SCOPED_TRACE(outputs);
    const RandomMatrix matrix(DType::kQ4_1, outputs, 64, 3);
    const std::vector<float> x = RandomFloats(1, 3 * 64);
    ExpectSameAsReference([&](Backend& b, DeviceTensors& t) { return Product(b, t, matrix, x); });
  }
}

TEST_P(CpuMatMul, ComputesSeveralTargetsOfDifferentFormatsAtOnce) {
  const RandomMatrix first(DType::kQ4_0, 48, 256, 1), second(DType::kF16, 20, 256, 2), third(DType::kQ6_K, 33, 256, 3);
  const std::vector<float> x = RandomFloats(4, 5 * 256);
  ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
    const auto w1 = first.Pack(b), w2 = second.Pack(b), w3 = third.Pack(b);
    const Tensor a = t.Empty(DType::kF32, {5, 48}), c = t.Empty(DType::kF32, {5, 20}),
                 d = t.Empty(DType::kF32, {5, 33});
    b.MatMul(t.Floats({5, 256}, x), std::vector<MatMulTarget>{{w1.get(), a}, {w2.get(), c}, {w3.get(), d}});
    std::vector<float> all = t.Get(a);
    for (const Tensor& more : {c, d}) {
      const std::vector<float> values = t.Get(more);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  });
}

TEST_P(CpuMatMul, TakesRowsAndColumnsOfAFile) {
  for (DType dtype : {DType::kQ4_K, DType::kQ8_0, DType::kBF16}) {
    const RandomMatrix matrix(dtype, 50, 768, 5);
    WeightSource source = matrix.Source();
    source.rows = {49, 0, 7, 7, 30};
    source.column_begin = 256;
    source.column_end = 768;
    const std::vector<float> x = RandomFloats(6, 2 * 512);
    ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
      const auto weight = std::move(b.Pack(source).value());
      EXPECT_EQ(weight->rows(), 5);
      EXPECT_EQ(weight->columns(), 512);
      const Tensor out = t.Empty(DType::kF32, {2, 5});
      b.MatMul(t.Floats({2, 512}, x), std::vector<MatMulTarget>{{weight.get(), out}});
      return t.Get(out);
    });
  }
}

TEST_P(CpuMatMul, ARowHasTheSameBitsAloneAndInABatch) {
  for (DType dtype : {DType::kQ4_1, DType::kQ5_0, DType::kIQ4_XS, DType::kF32}) {
    const RandomMatrix matrix(dtype, 70, kColumns, 9);
    DeviceTensors tensors(*cpu_);
    const std::vector<float> x = RandomFloats(3, 11 * kColumns);
    const std::vector<float> together = Product(*cpu_, tensors, matrix, x);
    for (int64_t row = 0; row < 11; ++row) {
      const std::vector<float> one(x.begin() + row * kColumns, x.begin() + (row + 1) * kColumns);
      const std::vector<float> want(together.begin() + row * 70, together.begin() + (row + 1) * 70);
      ExpectSameFloats(Product(*cpu_, tensors, matrix, one), want);
    }
  }
}

// More activation rows than one chunk of the cache holds.
TEST_P(CpuMatMul, CrossesChunksOfActivations) {
  const RandomMatrix matrix(DType::kQ4_1, 17, 64, 2);
  const int64_t rows = 256 * 1024 / 128 + 7;
  const std::vector<float> x = RandomFloats(1, rows * 64);
  ExpectSameAsReference([&](Backend& b, DeviceTensors& t) { return Product(b, t, matrix, x); });
}

TEST_P(CpuMatMul, KeepsExtremeActivationsExact) {
  for (DType dtype : WeightFormats()) {
    SCOPED_TRACE(std::string(Name(dtype)));
    const RandomMatrix matrix(dtype, 20, 256, 11);
    std::vector<float> x = RandomFloats(2, 7 * 256);
    const float scales[7] = {0.0f, 1e-45f, 1e-40f, 1e-37f, 1e30f, 3e38f, -0.0f};
    for (size_t i = 0; i < x.size(); ++i) x[i] *= scales[i / 256];
    for (size_t i = 0; i < 32; ++i) x[256 + i] = i % 2 ? 1e-45f : -1e-45f;
    ExpectSameAsReference([&](Backend& b, DeviceTensors& t) { return Product(b, t, matrix, x); });
  }
}

// -128 is the one int8 whose magnitude does not fit: weights of -128 against activations of 127 and -127.
TEST_P(CpuMatMul, MultipliesTheLargestBytes) {
  for (int byte : {0x80, 0x7f, 0x81}) {
    std::vector<std::byte> bytes(size_t(34 * 2 * 16), std::byte(byte));
    for (size_t i = 0; i < bytes.size(); i += 34) bytes[i] = std::byte(0), bytes[i + 1] = std::byte(0x3c);  // scale 1
    WeightSource source{DType::kQ8_0, bytes, 64, {0, 1, 2}, 0, 64};
    std::vector<float> x(128, 1.0f);
    for (size_t i = 64; i < 128; ++i) x[i] = i % 3 ? -1.0f : 1.0f;
    ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
      const auto weight = std::move(b.Pack(source).value());
      const Tensor out = t.Empty(DType::kF32, {2, 3});
      b.MatMul(t.Floats({2, 64}, x), std::vector<MatMulTarget>{{weight.get(), out}});
      return t.Get(out);
    });
  }
}

TEST_P(CpuMatMul, KeepsNaNAndInfinityInTheirRow) {
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ6_K, DType::kQ8_0, DType::kF16}) {
    SCOPED_TRACE(std::string(Name(dtype)));
    const RandomMatrix matrix(dtype, 20, 256, 11);
    std::vector<float> x = RandomFloats(2, 6 * 256);
    x[256 + 40] = std::numeric_limits<float>::quiet_NaN();
    x[4 * 256 + 255] = std::numeric_limits<float>::infinity();
    ExpectSameAsReference([&](Backend& b, DeviceTensors& t) { return Product(b, t, matrix, x); });
    EXPECT_EQ(SegmentedSums(*cpu_, matrix, x, 64), SegmentedSums(*reference_, matrix, x, 64));
  }
}

TEST_P(CpuMatMul, SegmentedSumsHaveTheBitsOfTheReference) {
  for (DType dtype : WeightFormats()) {
    SCOPED_TRACE(std::string(Name(dtype)));
    const RandomMatrix matrix(dtype, 39, kColumns, 13);
    for (int64_t rows : {1, 2, 3, 4, 9}) {
      for (int64_t segment : {32, 64, 512}) {
        const std::vector<float> x = RandomFloats(uint64_t(rows), rows * kColumns, 2);
        ASSERT_EQ(SegmentedSums(*cpu_, matrix, x, segment), SegmentedSums(*reference_, matrix, x, segment));
      }
    }
  }
}

// More segments than are put aside at once (16): 35 of them, of every sign and size.
TEST_P(CpuMatMul, SegmentedSumsOfManySegmentsHaveTheBitsOfTheReference) {
  const RandomMatrix matrix(DType::kQ4_1, 39, 35 * 32, 23);
  for (int64_t rows : {1, 4, 6}) {
    const std::vector<float> x = RandomFloats(uint64_t(rows) + 40, rows * 35 * 32, 3);
    ASSERT_EQ(SegmentedSums(*cpu_, matrix, x, 32), SegmentedSums(*reference_, matrix, x, 32));
  }
}

// Partials of every size: below half a step, past 2^51 steps (where the vector conversion ends) and past the limit.
TEST_P(CpuMatMul, SegmentedSumsRoundAndCountLikeTheReferenceAtEverySize) {
  const RandomMatrix matrix(DType::kF32, 39, 128, 17);
  std::vector<float> x = RandomFloats(19, 40 * 128);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], int(i / 128) * 2 - 50);
  const std::vector<int64_t> got = SegmentedSums(*cpu_, matrix, x, 32);
  EXPECT_EQ(got, SegmentedSums(*reference_, matrix, x, 32));
  EXPECT_EQ(got[39], 0);
  EXPECT_GT(got.back(), 0) << "the last row leaves the range";
}

TEST(CpuBackend, RejectsUnknownKernelsAndThreadCounts) {
  const auto unknown = MakeCpuBackend(1, "sse2");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.status().message(), "kernels: expected one of auto, avx512, avx2, plain; found \"sse2\"");
  EXPECT_EQ(MakeCpuBackend(0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeCpuBackend(1'000'000).status().message(), "threads: expected 1 to 1024, found 1000000");
}

TEST(CpuBackend, TakesTheBestKernelsThatTheCpuRunsAndRefusesTheOthers) {
  std::string best;
  for (const cpu::KernelSet& set : cpu::KernelSets()) {
    const auto backend = MakeCpuBackend(1, set.name);
    EXPECT_STREQ(set.get().name, set.name);
    ASSERT_EQ(backend.ok(), set.runs_here) << set.name;
    if (!set.runs_here) {
      EXPECT_EQ(backend.status().message(),
                "kernels: " + std::string(set.name) + " was asked for, but this CPU does not have it");
      continue;
    }
    EXPECT_EQ((*backend)->kernels(), set.name);
    if (best.empty()) best = set.name;
  }
  EXPECT_EQ(MakeCpuBackend(1, "auto").value()->kernels(), best);
}

TEST(CpuBackend, ReportsMemoryThatCannotBeAllocated) {
  const auto backend = std::move(MakeCpuBackend(1).value());
  EXPECT_EQ(backend->Allocate(int64_t(1) << 46).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(backend->Allocate(int64_t(1) << 62).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(backend->bytes_allocated(), 0);
}

TEST(CpuBackend, GivesZeroedAlignedMemory) {
  const auto backend = std::move(MakeCpuBackend(1).value());
  for (int64_t bytes : {int64_t(4), int64_t(100), int64_t(3) << 20}) {
    Buffer buffer = std::move(backend->Allocate(bytes).value());
    const Tensor view = buffer.View(DType::kF32, {bytes / 4});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data()) % 64, 0u);
    DeviceTensors tensors(*backend);
    for (float x : tensors.Get(view)) ASSERT_EQ(FloatBits(x), 0u);
  }
}

}  // namespace
}  // namespace winnow
