// Every operation of the AVX-512 lanes, through SIMDe, against its meaning in lanes_plain.h by bits: random numbers of
// every size, ties, denormals, infinities and NaN. On a CPU with AVX-512 the kernel tests of this folder run the real
// instructions too.
#include "tests/compute/simde_lanes.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "base/exact_math.h"
#include "compute/cpu/exp.h"
#include "compute/cpu/lanes_plain.h"
#include "compute/cpu/quantise.h"
#include "tests/compute/device_tensors.h"

namespace winnow {
namespace {

using cpu::PlainLanes;
using cpu::SimdeLanes;
using Floats = std::array<float, 16>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Sixteen numbers: of ordinary size, of any bits at all, or of those where rounding and comparison are delicate.
Floats Draw(uint64_t seed) {
  static constexpr float kDelicate[16] = {0.0f,    -0.0f,  0.5f,    -0.5f,     1.5f,       2.5f, -2.5f,      1e-45f,
                                          -1e-45f, 1e-38f, 3.4e38f, kInfinity, -kInfinity, kNaN, 8388609.0f, 88.5f};
  Floats values;
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = RandomBits(seed, i);
    const uint32_t pick = RandomBits(seed + (uint64_t(1) << 40), i);
    switch (seed % 4) {
      case 0:
        values[size_t(i)] = std::bit_cast<float>(bits);
        break;
      case 1:
        values[size_t(i)] = kDelicate[pick % 16];
        break;
      default:
        values[size_t(i)] = (float(bits) * 0x1p-32f - 0.5f) * std::ldexp(1.0f, int(pick % 16) - 4);
    }
  }
  return values;
}

template <class L>
typename L::Float LoadAll(const Floats& values) {
  return L::Load(values.data());
}
template <class L>
Floats StoreAll(typename L::Float x) {
  Floats values;
  L::Store(values.data(), x);
  return values;
}

// NaN equals NaN: which NaN an operation makes of two is no part of the contract.
void ExpectSame(const Floats& got, const Floats& want) {
  for (size_t i = 0; i < 16; ++i) {
    if (want[i] != want[i]) {
      EXPECT_TRUE(got[i] != got[i]) << "lane " << i;
    } else {
      EXPECT_EQ(FloatBits(got[i]), FloatBits(want[i])) << "lane " << i << ": " << got[i] << " and " << want[i];
    }
  }
}

// op(lanes, x, y, z) -> Float, on both kinds of lanes.
template <class F>
void ExpectSameOperation(const char* name, F&& op) {
  SCOPED_TRACE(name);
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const Floats x = Draw(3 * seed), y = Draw(3 * seed + 1), z = Draw(3 * seed + 2);
    ExpectSame(
        StoreAll<SimdeLanes>(op(SimdeLanes(), LoadAll<SimdeLanes>(x), LoadAll<SimdeLanes>(y), LoadAll<SimdeLanes>(z))),
        StoreAll<PlainLanes>(op(PlainLanes(), LoadAll<PlainLanes>(x), LoadAll<PlainLanes>(y), LoadAll<PlainLanes>(z))));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(SimdeLanes, ComputesWithFloatsLikeThePlainLanes) {
  ExpectSameOperation("Add", [](auto l, auto x, auto y, auto) { return l.Add(x, y); });
  ExpectSameOperation("Sub", [](auto l, auto x, auto y, auto) { return l.Sub(x, y); });
  ExpectSameOperation("Mul", [](auto l, auto x, auto y, auto) { return l.Mul(x, y); });
  ExpectSameOperation("Div", [](auto l, auto x, auto y, auto) { return l.Div(x, y); });
  ExpectSameOperation("Fma", [](auto l, auto x, auto y, auto z) { return l.Fma(x, y, z); });
  ExpectSameOperation("NegFma", [](auto l, auto x, auto y, auto z) { return l.NegFma(x, y, z); });
  ExpectSameOperation("Max", [](auto l, auto x, auto y, auto) { return l.Max(x, y); });
  ExpectSameOperation("Min", [](auto l, auto x, auto y, auto) { return l.Min(x, y); });
  ExpectSameOperation("Abs", [](auto l, auto x, auto, auto) { return l.Abs(x); });
  ExpectSameOperation("Round", [](auto l, auto x, auto, auto) { return l.Round(x); });
  ExpectSameOperation("KeepAbove", [](auto l, auto x, auto y, auto) { return l.KeepAbove(x, 0.5f, y); });
  ExpectSameOperation("Exp", [](auto l, auto x, auto, auto) { return cpu::Exp<decltype(l)>(x); });
  for (int64_t count = 0; count <= 17; ++count) {
    ExpectSameOperation("Fill", [&](auto l, auto x, auto, auto) { return l.Fill(x, count, -kInfinity); });
  }
}

TEST(SimdeLanes, MakesEveryPowerOfTwo) {
  for (int n = -126; n <= 127; ++n) {
    const Floats got = StoreAll<SimdeLanes>(SimdeLanes::PowerOfTwo(SimdeLanes::Set(float(n))));
    for (float x : got) ASSERT_EQ(x, std::ldexp(1.0f, n)) << n;
  }
}

TEST(SimdeLanes, ExpHasTheBitsOfTheScalarOne) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Floats x = Draw(seed), want;
    for (size_t i = 0; i < 16; ++i) {
      if (seed % 4 >= 2) x[i] *= 0.125f * float(seed % 97);
      if (x[i] != x[i]) x[i] = -kInfinity;
      want[i] = ExactExp(x[i]);
    }
    ExpectSame(StoreAll<SimdeLanes>(cpu::Exp<SimdeLanes>(LoadAll<SimdeLanes>(x))), want);
    if (HasFailure()) return;
  }
}

TEST(SimdeLanes, ReducesLikeThePlainLanes) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    const Floats x = Draw(seed);
    const auto got = LoadAll<SimdeLanes>(x);
    const auto want = LoadAll<PlainLanes>(x);
    EXPECT_EQ(SimdeLanes::AnyNaN(got), PlainLanes::AnyNaN(want));
    for (float limit : {0.5f, 1e6f, kInfinity}) {
      ASSERT_EQ(SimdeLanes::NotBelow(got, limit), PlainLanes::NotBelow(want, limit));
    }
    if (PlainLanes::AnyNaN(want)) continue;
    EXPECT_EQ(SimdeLanes::MaxLane(got), PlainLanes::MaxLane(want));
    const float sum = PlainLanes::SumLanes(want);
    if (sum == sum) {
      ASSERT_EQ(FloatBits(SimdeLanes::SumLanes(got)), FloatBits(sum));
    }
  }
}

TEST(SimdeLanes, LoadsEveryHalfAndBFloat16) {
  for (uint32_t begin = 0; begin < 65536; begin += 32) {
    std::array<uint16_t, 32> bits;
    for (uint32_t i = 0; i < 32; ++i) bits[i] = uint16_t(begin + i);
    ExpectSame(StoreAll<SimdeLanes>(SimdeLanes::Load(bits.data())),
               StoreAll<PlainLanes>(PlainLanes::Load(bits.data())));
    ExpectSame(StoreAll<SimdeLanes>(SimdeLanes::LoadHalf(bits.data())),
               StoreAll<PlainLanes>(PlainLanes::LoadHalf(bits.data())));
    SimdeLanes::Float even, odd;
    PlainLanes::Float plain_even, plain_odd;
    SimdeLanes::LoadPairs(bits.data(), &even, &odd);
    PlainLanes::LoadPairs(bits.data(), &plain_even, &plain_odd);
    ExpectSame(StoreAll<SimdeLanes>(even), StoreAll<PlainLanes>(plain_even));
    ExpectSame(StoreAll<SimdeLanes>(odd), StoreAll<PlainLanes>(plain_odd));
    if (HasFailure()) return;
  }
  std::array<float, 32> floats;
  for (size_t i = 0; i < 32; ++i) floats[i] = float(i);
  SimdeLanes::Float even, odd;
  SimdeLanes::LoadPairs(floats.data(), &even, &odd);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(StoreAll<SimdeLanes>(even)[i], float(2 * i));
    EXPECT_EQ(StoreAll<SimdeLanes>(odd)[i], float(2 * i + 1));
  }
}

// What the kernels do with integers, over one kind of lanes.
template <class L>
std::vector<int64_t> Integers(const Floats& x, const std::array<int64_t, 16>& start) {
  const auto a = L::ToInt(LoadAll<L>(x)), b = L::AddInt(a, L::SetInt(7));
  std::array<int64_t, 16> sums;
  std::vector<int64_t> all = {L::SumInt(b)};
  for (const auto& sum : {L::AddUnsigned(L::LoadInt64(start.data()), L::AddModulo(a, b)),
                          L::AddInt64(L::ZeroInt64(), L::LoadInt64(start.data()))}) {
    L::Store(sums.data(), sum);
    all.insert(all.end(), sums.begin(), sums.end());
  }
  for (float f : StoreAll<L>(L::ToFloat(b))) all.push_back(FloatBits(f));
  return all;
}

TEST(SimdeLanes, ComputesWithIntegersLikeThePlainLanes) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Floats x = Draw(4 * seed + 2);
    std::array<int64_t, 16> start;
    for (size_t i = 0; i < 16; ++i) {
      x[i] *= seed % 3 == 0 ? 4096.0f : 1.0f;
      if (seed % 5 == 0) x[i] = float(int(i) - 8) + 0.5f;  // ties
      start[i] = int64_t(RandomBits(seed, int64_t(i) + 64)) << 20;
    }
    ASSERT_EQ(Integers<SimdeLanes>(x, start), Integers<PlainLanes>(x, start));
  }
}

TEST(SimdeLanes, RoundsSumsLikeThePlainLanesAtEverySize) {
  for (uint64_t seed = 0; seed < 700; ++seed) {
    Floats x = Draw(4 * seed + 2);
    for (float& v : x) v = std::ldexp(v, int(seed % 70) - 6);  // up to 2^63 and a little below 1
    std::array<int64_t, 16> start{}, got, want;
    start[3] = -5;
    SimdeLanes::Store(got.data(), SimdeLanes::AddRounded(SimdeLanes::LoadInt64(start.data()), LoadAll<SimdeLanes>(x)));
    PlainLanes::Store(want.data(), PlainLanes::AddRounded(PlainLanes::LoadInt64(start.data()), LoadAll<PlainLanes>(x)));
    ASSERT_EQ(got, want) << seed;
  }
}

// Sums of products of bytes in the four ways of the weight formats; `pattern` makes the weights extreme.
template <class L>
std::vector<float> Products(const std::array<uint8_t, 64>& weights, const std::array<int8_t, 4>& x) {
  const auto bytes = L::LoadBytes(reinterpret_cast<const std::byte*>(weights.data()));
  std::vector<float> all;
  const auto add = [&](typename L::Pairs sum) {
    for (float f : StoreAll<L>(L::ToFloat(L::Widen(sum, L::SetInt(-3))))) all.push_back(f);
  };
  add(L::MulUnsigned(L::ZeroPairs(), L::LowNibbles(bytes), x.data()));
  add(L::MulUnsigned(L::MulUnsigned(L::ZeroPairs(), L::LowNibbles(bytes), x.data()), L::HighNibbles(bytes), x.data()));
  add(L::MulSigned(L::ZeroPairs(), bytes, L::AbsBytes(bytes), x.data()));
  return all;
}

TEST(SimdeLanes, MultipliesBytesLikeThePlainLanes) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    std::array<uint8_t, 64> weights;
    std::array<int8_t, 4> x;
    static constexpr uint8_t kExtremes[] = {0x80, 0x81, 0x7f, 0xff, 0x00};
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t random = RandomBits(seed, int64_t(i));
      weights[i] = seed % 3 == 0 ? kExtremes[random % 5] : uint8_t(random);
    }
    for (size_t i = 0; i < 4; ++i) {
      const uint32_t random = RandomBits(seed, int64_t(i) + 100);
      x[i] = seed % 2 == 0 ? (random & 1 ? int8_t(127) : int8_t(-127)) : int8_t(int(random % 255) - 127);
    }
    ASSERT_EQ(Products<SimdeLanes>(weights, x), Products<PlainLanes>(weights, x)) << seed;
  }
}

TEST(SimdeLanes, QuantisesLikeThePlainLanes) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::array<float, 32> x;
    const Floats first = Draw(seed), second = Draw(seed + 1);
    std::copy(first.begin(), first.end(), x.begin());
    std::copy(second.begin(), second.end(), x.begin() + 16);
    if (seed % 7 == 0) {
      for (size_t i = 0; i < 32; ++i) x[i] = float(int(i) - 16) + 0.5f;  // ties after scaling with 127 / 15.5
      x[0] = x[31] = 127.0f;
    }
    cpu::ActivationBlock got, want;
    std::memset(&got, 0, sizeof got);
    std::memset(&want, 0, sizeof want);
    cpu::Quantise<SimdeLanes>(x.data(), 1, &got);
    cpu::Quantise<PlainLanes>(x.data(), 1, &want);
    ASSERT_EQ(std::memcmp(got.q, want.q, 32), 0) << seed;
    for (int half = 0; half < 2; ++half) {
      ASSERT_EQ(got.int_sum[half], want.int_sum[half]) << seed;
      if (want.scale[half] != want.scale[half]) {
        ASSERT_TRUE(got.scale[half] != got.scale[half]) << seed;
        continue;
      }
      ASSERT_EQ(FloatBits(got.scale[half]), FloatBits(want.scale[half])) << seed;
      ASSERT_EQ(FloatBits(got.sum[half]), FloatBits(want.sum[half])) << seed;
    }
  }
}

}  // namespace
}  // namespace winnow
