// Ops on rows of the CPU backend against the reference, by bits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/compute/cpu_backends.h"
#include "tests/compute/random_weight.h"

namespace winnow {
namespace {

class CpuRowOps : public CpuTest {};
INSTANTIATE_TEST_SUITE_P(Kernels, CpuRowOps, testing::ValuesIn(CpuVariants()), VariantName);

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

TEST_P(CpuRowOps, EmbedDequantisesEveryFormat) {
  for (DType dtype : WeightFormats()) {
    SCOPED_TRACE(std::string(Name(dtype)));
    const RandomMatrix table(dtype, 37, 256, 3);
    ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
      const auto weight = table.Pack(b);
      const Tensor out = t.Empty(DType::kF32, {40, 256});
      std::vector<int32_t> ids;
      for (int32_t i = 0; i < 40; ++i) ids.push_back(95 + i);  // rows 100..136 are here, the others elsewhere
      b.Embed(*weight, 100, t.Ints({40}, ids), out);
      return t.Get(out);
    });
  }
}

TEST_P(CpuRowOps, RmsNormHasTheBitsOfTheReference) {
  for (int64_t rows : {1, 2, 5, 40}) {
    for (int64_t hidden : {16, 48, 576}) {
      std::vector<float> x = RandomFloats(1, rows * hidden, 5);
      if (rows == 5) x[size_t(hidden)] = kNaN, x[size_t(3 * hidden)] = kInfinity, x[0] = 1e-42f;
      const std::vector<float> gain = RandomFloats(2, hidden);
      ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
        const Tensor in = t.Floats({rows, hidden}, x), out = t.Empty(DType::kF32, {rows, hidden});
        b.RmsNorm(in, t.Floats({hidden}, gain), 1e-5f, out);
        return t.Get(out);
      });
      ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {  // in place
        const Tensor in = t.Floats({rows, hidden}, x);
        b.RmsNorm(in, t.Floats({hidden}, gain), 1e-5f, in);
        return t.Get(in);
      });
    }
  }
}

// Every size of gate: the exponential's clamps at -87 and 88, its rounding, zeros of both signs and no numbers.
TEST_P(CpuRowOps, SiluMulHasTheBitsOfTheReference) {
  std::vector<float> gate = RandomFloats(3, 64 * 256, 100);
  for (size_t i = 0; i < 4096; ++i) gate[i] *= 0.01f;
  const float special[] = {0.0f,   -0.0f,  kInfinity, -kInfinity, kNaN,   87.0f,  -87.0f, 88.0f,
                           -88.0f, 1e-45f, -1e-40f,   3e38f,      -3e38f, 88.01f, 86.99f, -103.0f};
  for (size_t i = 0; i < std::size(special); ++i) gate[5000 + i] = special[i];
  const std::vector<float> up = RandomFloats(4, 64 * 256);
  ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
    const Tensor g = t.Floats({64, 256}, gate);
    b.SiluMul(g, t.Floats({64, 256}, up));
    return t.Get(g);
  });
}

TEST_P(CpuRowOps, AddFixedPointHasTheBitsOfTheReference) {
  const int64_t rows = 30, columns = 200;
  std::vector<int64_t> sums;
  for (int64_t i = 0; i < rows * (columns + 1); ++i) {
    const auto bits = uint64_t(RandomBits(5, i)) << 32 | RandomBits(6, i);
    sums.push_back(int64_t(bits) >> (i % 60));
    if (i % (columns + 1) == columns) sums.back() = i / (columns + 1) == 7 ? 2 : 0;
  }
  const std::vector<float> residual = RandomFloats(7, rows * columns);
  ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
    const Tensor to = t.Floats({rows, columns}, residual);
    b.AddFixedPoint(t.Put(DType::kI64, {rows, columns + 1}, sums), {0x1p36f, 0x1p20f}, to);
    return t.Get(to);
  });
}

TEST_P(CpuRowOps, AddHasTheBitsOfTheReference) {
  std::vector<float> x = RandomFloats(9, 30 * 200);
  x[205] = kNaN, x[410] = kInfinity, x[411] = 1e-45f;
  ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
    const Tensor to = t.Floats({30, 200}, RandomFloats(10, 30 * 200));
    b.Add(t.Floats({30, 200}, x), to);
    return t.Get(to);
  });
}

TEST_P(CpuRowOps, AddBiasHasTheBitsOfTheReference) {
  std::vector<float> x = RandomFloats(11, 30 * 200);
  x[205] = kNaN, x[410] = kInfinity, x[411] = 1e-45f;
  ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
    const Tensor to = t.Floats({30, 200}, x);
    b.AddBias(t.Floats({200}, RandomFloats(12, 200)), to);
    return t.Get(to);
  });
}

TEST_P(CpuRowOps, RmsNormOfARowWhoseSquaresOverflowIsNotANumber) {
  // 1e20 squared is infinite in float: without the rule the row would come out as innocent zeros.
  std::vector<float> x(2 * 48, 1.0f);
  x[50] = 1e20f;
  ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
    const Tensor in = t.Floats({2, 48}, x), out = t.Empty(DType::kF32, {2, 48});
    b.RmsNorm(in, t.Floats({48}, std::vector<float>(48, 1.0f)), 1e-5f, out);
    const std::vector<float> result = t.Get(out);
    for (size_t i = 0; i < result.size(); ++i) EXPECT_EQ(std::isnan(result[i]), i >= 48) << i;
    return result;
  });
}

TEST_P(CpuRowOps, FlagNotFiniteNamesTheRowsWithNanOrInfinity) {
  std::vector<float> x(5 * 37, -3.0f);
  x[1 * 37 + 36] = kNaN;
  x[3 * 37] = -kInfinity;
  x[4 * 37] = std::numeric_limits<float>::max();
  for (Backend* backend : {cpu_.get(), reference_.get()}) {
    DeviceTensors tensors(*backend);
    const Tensor flags = tensors.Ints({5}, {7, 7, 7, 7, 7});
    backend->FlagNotFinite(tensors.Floats({5, 37}, x), flags);
    EXPECT_EQ(tensors.Get<int32_t>(flags), (std::vector<int32_t>{0, 1, 0, 1, 0}));
  }
}

TEST_P(CpuRowOps, GatherRowsCopiesRows) {
  const std::vector<float> x = RandomFloats(8, 9 * 20);
  ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
    const Tensor out = t.Empty(DType::kF32, {4, 20});
    b.GatherRows(t.Floats({9, 20}, x), t.Ints({4}, {8, 0, 3, 3}), out);
    return t.Get(out);
  });
}

TEST_P(CpuRowOps, ZeroRowsClearsItsRowsAndNoOthers) {
  std::vector<int64_t> numbers;
  for (int64_t i = 1; i <= 9 * 16; ++i) numbers.push_back(i << 33);
  DeviceTensors tensors(*cpu_);
  const Tensor x = tensors.Put(DType::kI64, {9, 16}, numbers);
  cpu_->ZeroRows(x, tensors.Ints({3}, {8, 0, 8}));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i / 16 == 0 || i / 16 == 8 ? 0 : numbers[i];
  EXPECT_EQ(tensors.Get<int64_t>(x), numbers);
  const Tensor bad = tensors.Ints({1}, {9});
  EXPECT_DEATH(cpu_->ZeroRows(x, bad), "check failed");
}

// Slots that are written start at 0; moves take the mass along, in order.
TEST_P(CpuRowOps, MassIsResetByRopeAppendAndMovedByCompact) {
  for (Backend* backend : {cpu_.get(), reference_.get()}) {
    DeviceTensors t(*backend);
    const KvLayout kv{16, DType::kBF16};
    std::vector<int64_t> numbers;
    for (int64_t i = 1; i <= 3 * 16; ++i) numbers.push_back(i << 33);
    const Tensor mass = t.Put(DType::kI64, {3, 16}, numbers);
    const Tensor pages = t.Empty(DType::kF32, {3 * kv.page_bytes() / 4});
    const Tensor two = t.Empty(DType::kF32, {2, 1, 16});
    backend->RopeAppend({two, two, two, t.Empty(DType::kF32, {2, 16}), t.Ints({2, 1}, {17, 5}), pages, kv, 1.0f, mass});
    numbers[17] = numbers[5] = 0;
    EXPECT_EQ(t.Get<int64_t>(mass), numbers);
    backend->Compact({t.Ints({4, 2}, {40, 3, 3, 16, 17, 4, 7, 7}), pages, kv, mass});
    numbers[3] = numbers[16] = numbers[40], numbers[4] = 0;
    EXPECT_EQ(t.Get<int64_t>(mass), numbers);
    backend->RopeAppend({two, two, two, t.Empty(DType::kF32, {2, 16}), t.Ints({2, 1}, {1, 2}), pages, kv, 1.0f});
    EXPECT_EQ(t.Get<int64_t>(mass), numbers);
  }
}

TEST_P(CpuRowOps, RopeAppendRotatesAndWritesTheSamePages) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int64_t head_dim : {16, 64, 112}) {
      SCOPED_TRACE(head_dim);
      const KvLayout kv{head_dim, dtype};
      const int64_t rows = 37, kv_heads = 2, query_heads = 6, num_pages = 8;
      std::vector<int32_t> slots;
      for (int64_t i = 0; i < rows * kv_heads; ++i) slots.push_back(int32_t(i * 31 % (num_pages * 16)));
      std::vector<float> v = RandomFloats(3, rows * kv_heads * head_dim);
      v[5] = kNaN, v[6] = kInfinity, v[7] = 1e-40f;
      ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
        const Tensor pages = t.Empty(DType::kF32, {num_pages * kv.page_bytes() / 4});
        const Tensor q = t.Floats({rows, query_heads, head_dim}, RandomFloats(1, rows * query_heads * head_dim));
        b.RopeAppend({q, t.Floats({rows, kv_heads, head_dim}, RandomFloats(2, rows * kv_heads * head_dim)),
                      t.Floats({rows, kv_heads, head_dim}, v),
                      t.Floats({rows, head_dim}, RandomFloats(4, rows * head_dim)), t.Ints({rows, kv_heads}, slots),
                      pages, kv, 0.125f});
        std::vector<float> all = t.Get(q);
        const std::vector<float> written = t.Get(pages);
        all.insert(all.end(), written.begin(), written.end());
        return all;
      });
    }
  }
}

// Chains of moves: a slot is a source after it was a destination, and the other way round.
TEST_P(CpuRowOps, CompactMovesSlotsInOrder) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    const KvLayout kv{64, dtype};
    std::vector<int32_t> moves = {17, 3, 3, 40, 5, 5, 100, 17};
    for (int32_t i = 0; i < 200; ++i) {
      moves.push_back(int32_t(RandomBits(1, i) % 128));
      moves.push_back(int32_t(RandomBits(2, i) % 128));
    }
    const int64_t n = int64_t(moves.size()) / 2, floats = 8 * kv.page_bytes() / 4;
    ExpectSameAsReference([&](Backend& b, DeviceTensors& t) {
      const Tensor pages = t.Floats({floats}, RandomFloats(3, floats));
      b.Compact({t.Ints({n, 2}, moves), pages, kv});
      return t.Get(pages);
    });
  }
}

}  // namespace
}  // namespace winnow
