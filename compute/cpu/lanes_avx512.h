// The 16 logical lanes as one 512-bit register: the operations of lanes_plain.h, where their meaning is written, with
// the same bits. Needs AVX-512 F, BW, DQ, VL and VNNI.
// tests/simde compiles this file for CPUs without AVX-512 too: therefore what is not hot keeps to instructions that the
// SIMDe library knows, or works on 256-bit halves.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "compute/cpu/lanes_avx2.h"

namespace winnow::cpu {

struct Avx512Lanes {
  static constexpr const char* kName = "avx512";
  // Activation rows per pass over the weights: 8 registers of results, 8 of integer sums, 8 of pairs, and 8 are left
  // for weights and factors.
  static constexpr int kRowsAtOnce = 8;
  // Queries per pass over keys and values, as with AVX2: two registers were one lane there, so the chains are half as
  // many for the same reuse of keys.
  static constexpr int kQueriesAtOnce = 4;

  struct Float {
    __m512 v;
  };
  struct Int {
    __m512i v;
  };
  using Int64 = Avx2Lanes::Int64;
  struct Bytes {
    __m512i v;
  };
  struct Pairs {  // 32-bit sums: VNNI adds the four products of a lane without a step in 16 bits
    __m512i v;
  };

#define WINNOW_LANES [[gnu::always_inline]] static inline

  // ---- float ----
  WINNOW_LANES Float Set(float value) {
    return {_mm512_set1_ps(value)};
  }
  WINNOW_LANES Float Load(const float* p) {
    return {_mm512_loadu_ps(p)};
  }
  // One permutation puts every element into the upper half of its lane and zeroes the lower half.
  WINNOW_LANES Float Load(const uint16_t* bfloat16) {
    const __m512i order = _mm512_setr_epi32(0, 1 << 16, 2 << 16, 3 << 16, 4 << 16, 5 << 16, 6 << 16, 7 << 16, 8 << 16,
                                            9 << 16, 10 << 16, 11 << 16, 12 << 16, 13 << 16, 14 << 16, 15 << 16);
    const __m256i elements = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bfloat16));
    return {_mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, order, _mm512_castsi256_si512(elements)))};
  }
  WINNOW_LANES Float LoadHalf(const uint16_t* half) {
    return Join(Avx2Lanes::LoadHalf(half));
  }
  WINNOW_LANES void LoadPairs(const float* p, Float* even, Float* odd) {
    const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odds = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    const __m512 first = _mm512_loadu_ps(p), second = _mm512_loadu_ps(p + 16);
    even->v = _mm512_permutex2var_ps(first, evens, second);
    odd->v = _mm512_permutex2var_ps(first, odds, second);
  }
  WINNOW_LANES void LoadPairs(const uint16_t* p, Float* even, Float* odd) {
    const __m512i both = _mm512_loadu_si512(p);
    even->v = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    odd->v = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(int(0xffff0000u))));
  }
  WINNOW_LANES void Store(float* p, Float x) {
    _mm512_storeu_ps(p, x.v);
  }
  WINNOW_LANES Float Add(Float x, Float y) {
    return {_mm512_add_ps(x.v, y.v)};
  }
  WINNOW_LANES Float Sub(Float x, Float y) {
    return {_mm512_sub_ps(x.v, y.v)};
  }
  WINNOW_LANES Float Mul(Float x, Float y) {
    return {_mm512_mul_ps(x.v, y.v)};
  }
  WINNOW_LANES Float Div(Float x, Float y) {
    return {_mm512_div_ps(x.v, y.v)};
  }
  WINNOW_LANES Float Fma(Float x, Float y, Float z) {
    return {_mm512_fmadd_ps(x.v, y.v, z.v)};
  }
  WINNOW_LANES Float NegFma(Float x, Float y, Float z) {
    return {_mm512_fnmadd_ps(x.v, y.v, z.v)};
  }
  WINNOW_LANES Float Max(Float x, Float y) {
    return {_mm512_max_ps(x.v, y.v)};
  }
  WINNOW_LANES Float Min(Float x, Float y) {
    return {_mm512_min_ps(x.v, y.v)};
  }
  WINNOW_LANES Float Abs(Float x) {
    return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), x.v)};
  }
  WINNOW_LANES Float Round(Float x) {
    return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  // n + 127 + 1.5 * 2^23 has n + 127 in its low bits, and the shift drops the others.
  WINNOW_LANES Float PowerOfTwo(Float n) {
    const __m512 shifted = _mm512_add_ps(n.v, _mm512_set1_ps(0x1.8p23f + 127));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(shifted), 23))};
  }
  WINNOW_LANES Float KeepAbove(Float x, float limit, Float value) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, _mm512_set1_ps(limit), _CMP_GT_OQ), value.v)};
  }
  WINNOW_LANES Float Fill(Float x, int64_t count, float fill) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __mmask16 kept = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(int(count)), lane);
    return {_mm512_mask_mov_ps(_mm512_set1_ps(fill), kept, x.v)};
  }
  WINNOW_LANES bool AnyNaN(Float x) {
    return _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q) != 0;
  }
  WINNOW_LANES uint32_t NotBelow(Float x, float limit) {
    return _mm512_cmp_ps_mask(Abs(x).v, _mm512_set1_ps(limit), _CMP_NLT_UQ);
  }
  WINNOW_LANES float MaxLane(Float x) {
    return Avx2Lanes::MaxLane(Halves(x));
  }
  WINNOW_LANES float SumLanes(Float x) {
    return Avx2Lanes::SumLanes(Halves(x));
  }

  // ---- integers ----
  WINNOW_LANES Int SetInt(int32_t value) {
    return {_mm512_set1_epi32(value)};
  }
  WINNOW_LANES Int AddInt(Int x, Int y) {
    return {_mm512_add_epi32(x.v, y.v)};
  }
  WINNOW_LANES int32_t SumInt(Int x) {
    return Avx2Lanes::SumInt(Halves(x));
  }
  WINNOW_LANES Float ToFloat(Int x) {
    return {_mm512_cvtepi32_ps(x.v)};
  }
  WINNOW_LANES Int ToInt(Float x) {
    const Avx2Lanes::Int halves = Avx2Lanes::ToInt(Halves(x));
    return {_mm512_inserti64x4(_mm512_castsi256_si512(halves.a), halves.b, 1)};
  }
  WINNOW_LANES void StoreInt8(int8_t* p, Int x, Int y) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(x.v));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 16), _mm512_cvtsepi32_epi8(y.v));
  }
  WINNOW_LANES Int AddModulo(Int x, Int y) {
    return AddInt(x, y);
  }
  WINNOW_LANES Int64 ZeroInt64() {
    return Avx2Lanes::ZeroInt64();
  }
  WINNOW_LANES Int64 LoadInt64(const int64_t* p) {
    return Avx2Lanes::LoadInt64(p);
  }
  WINNOW_LANES Int64 AddInt64(Int64 x, Int64 y) {
    return Avx2Lanes::AddInt64(x, y);
  }
  WINNOW_LANES Int64 AddUnsigned(Int64 sum, Int x) {
    return Avx2Lanes::AddUnsigned(sum, Halves(x));
  }
  WINNOW_LANES Int64 AddRounded(Int64 sum, Float x) {
    if (NotBelow(x, Avx2Lanes::kVectorRoundingLimit) != 0) [[unlikely]]
      return AddRoundedScalar<Avx512Lanes>(sum, x);
    return Avx2Lanes::AddRoundedBelowLimit(sum, Halves(x));
  }
  WINNOW_LANES Int64 AddSteps(Int64 sum, const float* x, float steps) {
    return Avx2Lanes::AddSteps(sum, x, steps);
  }
  WINNOW_LANES Int64 FinishSteps(Int64 sum, int64_t count, float steps) {
    return Avx2Lanes::FinishSteps(sum, count, steps);
  }
  WINNOW_LANES bool FitsDouble(Int64 x) {
    return Avx2Lanes::FitsDouble(x);
  }
  WINNOW_LANES Float ToFloat(Int64 x) {
    return Join(Avx2Lanes::ToFloat(x));
  }
  WINNOW_LANES Float MaxMagnitude(Float largest, Float x) {
    const __m512i bits = _mm512_and_si512(_mm512_castps_si512(x.v), _mm512_set1_epi32(0x7fffffff));
    return {_mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(largest.v), bits))};
  }
  WINNOW_LANES void Store(int64_t* p, Int64 x) {
    Avx2Lanes::Store(p, x);
  }

  // ---- products of bytes ----
  WINNOW_LANES Bytes LoadBytes(const std::byte* p) {
    return {_mm512_loadu_si512(p)};
  }
  WINNOW_LANES Bytes LowNibbles(Bytes x) {
    return {_mm512_and_si512(x.v, _mm512_set1_epi8(15))};
  }
  WINNOW_LANES Bytes HighNibbles(Bytes x) {
    return {_mm512_and_si512(_mm512_srli_epi16(x.v, 4), _mm512_set1_epi8(15))};
  }
  WINNOW_LANES Bytes AbsBytes(Bytes x) {
    return {_mm512_abs_epi8(x.v)};
  }
  WINNOW_LANES Pairs ZeroPairs() {
    return {_mm512_setzero_si512()};
  }
  WINNOW_LANES Pairs MulUnsigned(Pairs sum, Bytes weights, const int8_t* x) {
    return {_mm512_dpbusd_epi32(sum.v, weights.v, BroadcastFour(x))};
  }
  // The sign of a weight moves to its activation.
  WINNOW_LANES Pairs MulSigned(Pairs sum, Bytes weights, Bytes magnitudes, const int8_t* x) {
    const __m512i four = BroadcastFour(x);
    const __m512i signed_four =
        _mm512_mask_sub_epi8(four, _mm512_movepi8_mask(weights.v), _mm512_setzero_si512(), four);
    return {_mm512_dpbusd_epi32(sum.v, magnitudes.v, signed_four)};
  }
  WINNOW_LANES Int Widen(Pairs x, Int sum) {
    return {_mm512_add_epi32(sum.v, x.v)};
  }

 private:
  WINNOW_LANES Avx2Lanes::Float Halves(Float x) {
    return {_mm512_castps512_ps256(x.v), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x.v), 1))};
  }
  WINNOW_LANES Avx2Lanes::Int Halves(Int x) {
    return {_mm512_castsi512_si256(x.v), _mm512_extracti64x4_epi64(x.v, 1)};
  }
  WINNOW_LANES Float Join(Avx2Lanes::Float x) {
    return {_mm512_insertf32x8(_mm512_castps256_ps512(x.a), x.b, 1)};
  }
  WINNOW_LANES __m512i BroadcastFour(const int8_t* x) {
    int32_t four;
    std::memcpy(&four, x, 4);
    return _mm512_set1_epi32(four);
  }

#undef WINNOW_LANES
};

}  // namespace winnow::cpu
