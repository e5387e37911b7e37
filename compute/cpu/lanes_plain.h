// The 16 logical lanes as arrays and plain loops: the meaning of every operation that the kernels use, on any machine.
// lanes_avx2.h and lanes_avx512.h have the same names and the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "compute/weight_blocks.h"

namespace winnow::cpu {

struct PlainLanes {
  static constexpr const char* kName = "plain";
  // Activation rows and queries per pass over weights and pages: no registers to fill here, and less to compile.
  static constexpr int kRowsAtOnce = 1;
  static constexpr int kQueriesAtOnce = 1;

  struct Float {
    float v[16];
  };
  struct Int {
    int32_t v[16];
  };
  struct Int64 {
    int64_t v[16];
  };
  struct Bytes {  // 4 bytes a lane
    uint8_t v[64];
  };
  struct Pairs {  // a sum of byte products a lane; AVX2 keeps it as two 16-bit halves, so it must stay below 2^15
    int32_t v[16];
  };

  // ---- float ----
  static Float Set(float value) {
    return Each([&](int) { return value; });
  }
  static Float Load(const float* p) {
    Float r;
    std::memcpy(r.v, p, sizeof(r.v));
    return r;
  }
  static Float Load(const uint16_t* bfloat16) {
    return Each([&](int i) { return BFloat16ToFloat(bfloat16[i]); });
  }
  static Float LoadHalf(const uint16_t* half) {
    return Each([&](int i) { return HalfToFloat(half[i]); });
  }
  // 16 pairs: even[i] = p[2 i], odd[i] = p[2 i + 1].
  static void LoadPairs(const float* p, Float* even, Float* odd) {
    *even = Each([&](int i) { return p[2 * i]; });
    *odd = Each([&](int i) { return p[2 * i + 1]; });
  }
  static void LoadPairs(const uint16_t* p, Float* even, Float* odd) {
    *even = Each([&](int i) { return BFloat16ToFloat(p[2 * i]); });
    *odd = Each([&](int i) { return BFloat16ToFloat(p[2 * i + 1]); });
  }
  static void Store(float* p, Float a) { std::memcpy(p, a.v, sizeof(a.v)); }
  static Float Add(Float a, Float b) {
    return Each([&](int i) { return a.v[i] + b.v[i]; });
  }
  static Float Sub(Float a, Float b) {
    return Each([&](int i) { return a.v[i] - b.v[i]; });
  }
  static Float Mul(Float a, Float b) {
    return Each([&](int i) { return a.v[i] * b.v[i]; });
  }
  static Float Div(Float a, Float b) {
    return Each([&](int i) { return a.v[i] / b.v[i]; });
  }
  // a * b + c, rounded once.
  static Float Fma(Float a, Float b, Float c) {
    return Each([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
  }
  // c - a * b, rounded once.
  static Float NegFma(Float a, Float b, Float c) {
    return Each([&](int i) { return std::fma(-a.v[i], b.v[i], c.v[i]); });
  }
  // a > b ? a : b.
  static Float Max(Float a, Float b) {
    return Each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  // a < b ? a : b.
  static Float Min(Float a, Float b) {
    return Each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  static Float Abs(Float a) {
    return Each([&](int i) { return std::fabs(a.v[i]); });
  }
  // To the nearest integer, halves to even.
  static Float Round(Float a) {
    return Each([&](int i) { return std::nearbyint(a.v[i]); });
  }
  // 2^n of a whole n from -126 to 127; anything for other n.
  static Float PowerOfTwo(Float n) {
    return Each([&](int i) {
      const float in_range = n.v[i] >= -126.0f && n.v[i] <= 127.0f ? n.v[i] : 0.0f;
      return std::bit_cast<float>((127 + int32_t(in_range)) << 23);
    });
  }
  // x > limit ? value : +0.
  static Float KeepAbove(Float x, float limit, Float value) {
    return Each([&](int i) { return x.v[i] > limit ? value.v[i] : 0.0f; });
  }
  // Lanes from `count` on become `fill`.
  static Float Fill(Float a, int64_t count, float fill) {
    return Each([&](int i) { return i < count ? a.v[i] : fill; });
  }
  static bool AnyNaN(Float a) {
    bool any = false;
    for (float x : a.v) any |= x != x;
    return any;
  }
  // Bit i: !(|a| < limit).
  static uint32_t NotBelow(Float a, float limit) {
    uint32_t mask = 0;
    for (int i = 0; i < 16; ++i) mask |= uint32_t(!(std::fabs(a.v[i]) < limit)) << i;
    return mask;
  }
  static float MaxLane(Float a) {
    float top = a.v[0];
    for (float x : a.v) top = x > top ? x : top;
    return top;
  }
  // The contract's tree.
  static float SumLanes(Float a) {
    for (int width : {8, 4, 2, 1}) {
      for (int i = 0; i < width; ++i) a.v[i] += a.v[i + width];
    }
    return a.v[0];
  }

  // ---- integers ----
  static Int SetInt(int32_t value) {
    Int r;
    for (int32_t& x : r.v) x = value;
    return r;
  }
  static Int AddInt(Int a, Int b) {
    for (int i = 0; i < 16; ++i) a.v[i] += b.v[i];
    return a;
  }
  static int32_t SumInt(Int a) {
    int32_t sum = 0;
    for (int32_t x : a.v) sum += x;
    return sum;
  }
  static Float ToFloat(Int a) {
    return Each([&](int i) { return float(a.v[i]); });
  }
  // Rounds to nearest even; the values are within int32.
  static Int ToInt(Float a) {
    Int r;
    for (int i = 0; i < 16; ++i) r.v[i] = int32_t(std::nearbyint(a.v[i]));
    return r;
  }
  static void StoreInt8(int8_t* p, Int a, Int b) {
    for (int i = 0; i < 16; ++i) p[i] = int8_t(a.v[i]), p[i + 16] = int8_t(b.v[i]);
  }
  // Sums modulo 2^32.
  static Int AddModulo(Int a, Int b) {
    for (int i = 0; i < 16; ++i) a.v[i] = int32_t(uint32_t(a.v[i]) + uint32_t(b.v[i]));
    return a;
  }
  static Int64 ZeroInt64() { return Int64{}; }
  static Int64 LoadInt64(const int64_t* p) {
    Int64 r;
    std::memcpy(r.v, p, sizeof(r.v));
    return r;
  }
  static Int64 AddInt64(Int64 a, Int64 b) {
    for (int i = 0; i < 16; ++i) a.v[i] += b.v[i];
    return a;
  }
  // sum + a, whose lanes are taken as unsigned.
  static Int64 AddUnsigned(Int64 sum, Int a) {
    for (int i = 0; i < 16; ++i) sum.v[i] += int64_t(uint32_t(a.v[i]));
    return sum;
  }
  // sum + round to nearest even of a. Lanes may be NaN or large only if their result is not used.
  static Int64 AddRounded(Int64 sum, Float a) {
    for (int i = 0; i < 16; ++i) {
      if (std::fabs(a.v[i]) < 0x1p63f) sum.v[i] += int64_t(std::nearbyint(a.v[i]));
    }
    return sum;
  }
  // A sum of values rounded to whole steps of 1 / steps (to nearest even), in three parts so that wide lanes need only
  // two additions a value: from ZeroInt64, AddSteps for 16 values, then FinishSteps with their number. Values must be
  // below 2^51 / steps; steps is a power of two.
  static Int64 AddSteps(Int64 sum, const float* a, float steps) {
    for (int i = 0; i < 16; ++i) {
      const float value = a[i] * steps;
      if (std::fabs(value) < 0x1p51f) sum.v[i] += int64_t(std::nearbyint(value));  // of others the result is not used
    }
    return sum;
  }
  static Int64 FinishSteps(Int64 sum, int64_t count, float steps) {
    (void)count, (void)steps;
    return sum;
  }
  // The larger magnitude of each lane; NaN counts as the largest of all and stays.
  static Float MaxMagnitude(Float largest, Float a) {
    for (int i = 0; i < 16; ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(a.v[i]) & 0x7fffffffu;
      largest.v[i] = std::bit_cast<float>(std::max(std::bit_cast<uint32_t>(largest.v[i]), bits));
    }
    return largest;
  }
  // One rounding, to nearest even; FitsDouble says whether wide lanes can do that.
  static Float ToFloat(Int64 a) {
    return Each([&](int i) { return float(a.v[i]); });
  }
  static bool FitsDouble(Int64) { return true; }
  static void Store(int64_t* p, Int64 a) { std::memcpy(p, a.v, sizeof(a.v)); }

  // ---- products of bytes ----
  static Bytes LoadBytes(const std::byte* p) {
    Bytes r;
    std::memcpy(r.v, p, sizeof(r.v));
    return r;
  }
  static Bytes LowNibbles(Bytes a) {
    for (uint8_t& x : a.v) x &= 15;
    return a;
  }
  static Bytes HighNibbles(Bytes a) {
    for (uint8_t& x : a.v) x = uint8_t(x >> 4);
    return a;
  }
  // |a| as unsigned of signed bytes; 128 of -128.
  static Bytes AbsBytes(Bytes a) {
    for (uint8_t& x : a.v) x = uint8_t(int8_t(x) < 0 ? -int8_t(x) : int8_t(x));
    return a;
  }
  static Pairs ZeroPairs() { return Pairs{}; }
  // sum + the products of unsigned bytes and four signed activations, -127 to 127.
  static Pairs MulUnsigned(Pairs sum, Bytes weights, const int8_t* x) {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 4; ++j) sum.v[i] += int(weights.v[4 * i + j]) * x[j];
    }
    return sum;
  }
  // The same for signed bytes; `magnitudes` is AbsBytes(weights).
  static Pairs MulSigned(Pairs sum, Bytes weights, Bytes magnitudes, const int8_t* x) {
    (void)magnitudes;
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 4; ++j) sum.v[i] += int(int8_t(weights.v[4 * i + j])) * x[j];
    }
    return sum;
  }
  static Int Widen(Pairs a, Int sum) {
    for (int i = 0; i < 16; ++i) sum.v[i] += a.v[i];
    return sum;
  }

 private:
  template <class F>
  static Float Each(F&& f) {
    Float r;
    for (int i = 0; i < 16; ++i) r.v[i] = f(i);
    return r;
  }
};

}  // namespace winnow::cpu
