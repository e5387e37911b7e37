// The 16 logical lanes as two 256-bit registers: the operations of lanes_plain.h, where their meaning is written, with
// the same bits. Lanes 0..7 are `a`, 8..15 are `b`.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace winnow::cpu {

// AddRounded for values of any size. A template over the lanes, so that the copy made with AVX-512 has its own name.
template <class L>
[[gnu::noinline]] typename L::Int64 AddRoundedScalar(typename L::Int64 sum, typename L::Float x) {
  float value[16];
  int64_t total[16];
  L::Store(value, x);
  L::Store(total, sum);
  for (int i = 0; i < 16; ++i) {
    if (std::fabs(value[i]) < 0x1p63f) total[i] += int64_t(std::nearbyint(value[i]));
  }
  return L::LoadInt64(total);
}

struct Avx2Lanes {
  static constexpr const char* kName = "avx2";
  // Activation rows per pass over the weights: 8 registers of sums, the rest for weights and activations.
  static constexpr int kRowsAtOnce = 4;
  // Queries per pass over keys and values: 8 registers of sums, the chains that hide the latency of fma; 6 queries
  // spill.
  static constexpr int kQueriesAtOnce = 4;

  struct Float {
    __m256 a, b;
  };
  struct Int {
    __m256i a, b;
  };
  struct Int64 {
    __m256i v[4];
  };
  struct Bytes {
    __m256i a, b;
  };
  struct Pairs {
    __m256i a, b;
  };

#define WINNOW_LANES [[gnu::always_inline]] static inline

  // ---- float ----
  WINNOW_LANES Float Set(float value) {
    return {_mm256_set1_ps(value), _mm256_set1_ps(value)};
  }
  WINNOW_LANES Float Load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }
  WINNOW_LANES Float Load(const uint16_t* bfloat16) {
    return {WidenBFloat16(LoadHalfRegister(bfloat16)), WidenBFloat16(LoadHalfRegister(bfloat16 + 8))};
  }
  WINNOW_LANES Float LoadHalf(const uint16_t* half) {
    return {_mm256_cvtph_ps(LoadHalfRegister(half)), _mm256_cvtph_ps(LoadHalfRegister(half + 8))};
  }
  WINNOW_LANES void LoadPairs(const float* p, Float* even, Float* odd) {
    SplitPairs(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8), &even->a, &odd->a);
    SplitPairs(_mm256_loadu_ps(p + 16), _mm256_loadu_ps(p + 24), &even->b, &odd->b);
  }
  WINNOW_LANES void LoadPairs(const uint16_t* p, Float* even, Float* odd) {
    const __m256i first = LoadRegister(p), second = LoadRegister(p + 16);
    *even = {_mm256_castsi256_ps(_mm256_slli_epi32(first, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(second, 16))};
    *odd = {_mm256_castsi256_ps(HighHalves(first)), _mm256_castsi256_ps(HighHalves(second))};
  }
  WINNOW_LANES void Store(float* p, Float x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
  }
  WINNOW_LANES Float Add(Float x, Float y) {
    return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
  }
  WINNOW_LANES Float Sub(Float x, Float y) {
    return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
  }
  WINNOW_LANES Float Mul(Float x, Float y) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
  }
  WINNOW_LANES Float Div(Float x, Float y) {
    return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
  }
  WINNOW_LANES Float Fma(Float x, Float y, Float z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  WINNOW_LANES Float NegFma(Float x, Float y, Float z) {
    return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
  }
  WINNOW_LANES Float Max(Float x, Float y) {
    return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
  }
  WINNOW_LANES Float Min(Float x, Float y) {
    return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
  }
  WINNOW_LANES Float Abs(Float x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
  }
  WINNOW_LANES Float Round(Float x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, kNearest), _mm256_round_ps(x.b, kNearest)};
  }
  WINNOW_LANES Float PowerOfTwo(Float n) {
    return {PowerOfTwo(n.a), PowerOfTwo(n.b)};
  }
  WINNOW_LANES Float KeepAbove(Float x, float limit, Float value) {
    const __m256 l = _mm256_set1_ps(limit);
    return {_mm256_and_ps(_mm256_cmp_ps(x.a, l, _CMP_GT_OQ), value.a),
            _mm256_and_ps(_mm256_cmp_ps(x.b, l, _CMP_GT_OQ), value.b)};
  }
  WINNOW_LANES Float Fill(Float x, int64_t count, float fill) {
    const __m256i n = _mm256_set1_epi32(int(count));
    const __m256i first = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i second = _mm256_add_epi32(first, _mm256_set1_epi32(8));
    const __m256 f = _mm256_set1_ps(fill);
    return {_mm256_blendv_ps(f, x.a, _mm256_castsi256_ps(_mm256_cmpgt_epi32(n, first))),
            _mm256_blendv_ps(f, x.b, _mm256_castsi256_ps(_mm256_cmpgt_epi32(n, second)))};
  }
  WINNOW_LANES bool AnyNaN(Float x) {
    // Either operand may be the NaN, so one comparison covers both registers.
    return _mm256_movemask_ps(_mm256_cmp_ps(x.a, x.b, _CMP_UNORD_Q)) != 0;
  }
  WINNOW_LANES uint32_t NotBelow(Float x, float limit) {
    const __m256 l = _mm256_set1_ps(limit);
    const Float m = Abs(x);
    return uint32_t(_mm256_movemask_ps(_mm256_cmp_ps(m.a, l, _CMP_NLT_UQ))) |
           uint32_t(_mm256_movemask_ps(_mm256_cmp_ps(m.b, l, _CMP_NLT_UQ))) << 8;
  }
  WINNOW_LANES float MaxLane(Float x) {
    const __m256 eight = _mm256_max_ps(x.a, x.b);
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
  }
  WINNOW_LANES float SumLanes(Float x) {
    const __m256 eight = _mm256_add_ps(x.a, x.b);
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }

  // ---- integers ----
  WINNOW_LANES Int SetInt(int32_t value) {
    return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)};
  }
  WINNOW_LANES Int AddInt(Int x, Int y) {
    return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
  }
  WINNOW_LANES int32_t SumInt(Int x) {
    const __m256i eight = _mm256_add_epi32(x.a, x.b);
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
  }
  WINNOW_LANES Float ToFloat(Int x) {
    return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
  }
  WINNOW_LANES Int ToInt(Float x) {
    return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
  }
  WINNOW_LANES void StoreInt8(int8_t* p, Int x, Int y) {
    // The packs work within 128-bit halves: the permutation brings the groups of four back in order.
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(x.a, x.b), _mm256_packs_epi32(y.a, y.b));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(bytes, order));
  }
  WINNOW_LANES Int AddModulo(Int x, Int y) {
    return AddInt(x, y);
  }
  WINNOW_LANES Int64 LoadInt64(const int64_t* p) {
    return {{LoadRegister(p), LoadRegister(p + 4), LoadRegister(p + 8), LoadRegister(p + 12)}};
  }
  WINNOW_LANES Int64 AddInt64(Int64 x, Int64 y) {
    for (int i = 0; i < 4; ++i) x.v[i] = _mm256_add_epi64(x.v[i], y.v[i]);
    return x;
  }
  WINNOW_LANES Int64 AddUnsigned(Int64 sum, Int x) {
    const __m128i quarter[4] = {_mm256_castsi256_si128(x.a), _mm256_extracti128_si256(x.a, 1),
                                _mm256_castsi256_si128(x.b), _mm256_extracti128_si256(x.b, 1)};
    for (int i = 0; i < 4; ++i) sum.v[i] = _mm256_add_epi64(sum.v[i], _mm256_cvtepu32_epi64(quarter[i]));
    return sum;
  }
  WINNOW_LANES Int64 ZeroInt64() {
    const __m256i zero = _mm256_setzero_si256();
    return {{zero, zero, zero, zero}};
  }
  WINNOW_LANES Int64 AddRounded(Int64 sum, Float x) {
    if (NotBelow(x, kVectorRoundingLimit) != 0) [[unlikely]]
      return AddRoundedScalar<Avx2Lanes>(sum, x);
    return AddRoundedBelowLimit(sum, x);
  }
  static constexpr float kVectorRoundingLimit = 0x1p51f;
  WINNOW_LANES Int64 AddRoundedBelowLimit(Int64 sum, Float x) {
    // A double below 2^51 plus 1.5 * 2^52 has the rounded integer in the low bits of its fraction.
    const __m256d magic = _mm256_set1_pd(0x1.8p52);
    const __m128 quarter[4] = {_mm256_castps256_ps128(x.a), _mm256_extractf128_ps(x.a, 1), _mm256_castps256_ps128(x.b),
                               _mm256_extractf128_ps(x.b, 1)};
    for (int i = 0; i < 4; ++i) {
      const __m256d shifted = _mm256_add_pd(_mm256_cvtps_pd(quarter[i]), magic);
      const __m256i integer = _mm256_sub_epi64(_mm256_castpd_si256(shifted), _mm256_castpd_si256(magic));
      sum.v[i] = _mm256_add_epi64(sum.v[i], integer);
    }
    return sum;
  }
  // The double that a value below 2^51 / steps is added to: the result's fraction counts steps.
  WINNOW_LANES __m256d StepMagic(float steps) {
    return _mm256_set1_pd(0x1.8p52 / double(steps));
  }
  // Converting while loading takes no instruction to halve a register.
  WINNOW_LANES Int64 AddSteps(Int64 sum, const float* x, float steps) {
    const __m256d magic = StepMagic(steps);
    for (int i = 0; i < 4; ++i) {
      const __m256d shifted = _mm256_add_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + 4 * i)), magic);
      sum.v[i] = _mm256_add_epi64(sum.v[i], _mm256_castpd_si256(shifted));
    }
    return sum;
  }
  // Takes the magic number's bits off again, once for all values: sums wrap, so the order does not matter.
  WINNOW_LANES Int64 FinishSteps(Int64 sum, int64_t count, float steps) {
    const int64_t bits = int64_t(uint64_t(_mm256_castpd_si256(StepMagic(steps))[0]) * uint64_t(count));
    for (int i = 0; i < 4; ++i) sum.v[i] = _mm256_sub_epi64(sum.v[i], _mm256_set1_epi64x(bits));
    return sum;
  }
  // Below 2^51 an integer goes exactly through the double whose fraction holds it.
  WINNOW_LANES bool FitsDouble(Int64 x) {
    const __m256i offset = _mm256_set1_epi64x(int64_t(1) << 51);
    __m256i high = _mm256_setzero_si256();
    for (int i = 0; i < 4; ++i) high = _mm256_or_si256(high, _mm256_srli_epi64(_mm256_add_epi64(x.v[i], offset), 52));
    return _mm256_testz_si256(high, high) != 0;
  }
  WINNOW_LANES Float ToFloat(Int64 x) {
    const __m256d magic = _mm256_set1_pd(0x1.8p52);
    __m128 quarter[4];
    for (int i = 0; i < 4; ++i) {
      const __m256i bits = _mm256_add_epi64(x.v[i], _mm256_castpd_si256(magic));
      quarter[i] = _mm256_cvtpd_ps(_mm256_sub_pd(_mm256_castsi256_pd(bits), magic));
    }
    return {_mm256_set_m128(quarter[1], quarter[0]), _mm256_set_m128(quarter[3], quarter[2])};
  }
  WINNOW_LANES Float MaxMagnitude(Float largest, Float x) {
    const auto half = [](__m256 a, __m256 b) __attribute__((always_inline)) {
      const __m256i bits = _mm256_and_si256(_mm256_castps_si256(b), _mm256_set1_epi32(0x7fffffff));
      return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), bits));
    };
    return {half(largest.a, x.a), half(largest.b, x.b)};
  }
  WINNOW_LANES void Store(int64_t* p, Int64 x) {
    for (int i = 0; i < 4; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 4 * i), x.v[i]);
  }

  // ---- products of bytes ----
  WINNOW_LANES Bytes LoadBytes(const std::byte* p) {
    return {LoadRegister(p), LoadRegister(p + 32)};
  }
  WINNOW_LANES Bytes LowNibbles(Bytes x) {
    const __m256i low = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.a, low), _mm256_and_si256(x.b, low)};
  }
  WINNOW_LANES Bytes HighNibbles(Bytes x) {
    const __m256i low = _mm256_set1_epi8(15);
    return {_mm256_and_si256(_mm256_srli_epi16(x.a, 4), low), _mm256_and_si256(_mm256_srli_epi16(x.b, 4), low)};
  }
  WINNOW_LANES Bytes AbsBytes(Bytes x) {
    return {_mm256_abs_epi8(x.a), _mm256_abs_epi8(x.b)};
  }
  WINNOW_LANES Pairs ZeroPairs() {
    return {_mm256_setzero_si256(), _mm256_setzero_si256()};
  }
  WINNOW_LANES Pairs MulUnsigned(Pairs sum, Bytes weights, const int8_t* x) {
    const __m256i four = BroadcastFour(x);
    return KeepChain({_mm256_add_epi16(sum.a, _mm256_maddubs_epi16(weights.a, four)),
                      _mm256_add_epi16(sum.b, _mm256_maddubs_epi16(weights.b, four))});
  }
  WINNOW_LANES Pairs MulSigned(Pairs sum, Bytes weights, Bytes magnitudes, const int8_t* x) {
    const __m256i four = BroadcastFour(x);
    return KeepChain({_mm256_add_epi16(sum.a, _mm256_maddubs_epi16(magnitudes.a, _mm256_sign_epi8(four, weights.a))),
                      _mm256_add_epi16(sum.b, _mm256_maddubs_epi16(magnitudes.b, _mm256_sign_epi8(four, weights.b)))});
  }
  WINNOW_LANES Int Widen(Pairs x, Int sum) {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_add_epi32(sum.a, _mm256_madd_epi16(x.a, ones)),
            _mm256_add_epi32(sum.b, _mm256_madd_epi16(x.b, ones))};
  }

 private:
  // The compiler may re-associate integer sums, and g++ does: it would keep all products of a block alive and spill
  // them. An empty statement that may change the sum forces the chain (four rows of Q4_1: 61 -> 92 GMAC/s).
  WINNOW_LANES Pairs KeepChain(Pairs x) {
    asm("" : "+x"(x.a), "+x"(x.b));
    return x;
  }
  WINNOW_LANES __m128i LoadHalfRegister(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
  }
  WINNOW_LANES __m256i LoadRegister(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  // The mask stays in memory: attention has no register left for it (three queries against two pages: 31 -> 40
  // multiply-adds/ns).
  WINNOW_LANES __m256i HighHalves(__m256i x) {
    alignas(32) static constexpr uint32_t kMask[8] = {0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u,
                                                      0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u};
    __m256i high;
    asm("vpand %2, %1, %0" : "=x"(high) : "x"(x), "m"(kMask));
    return high;
  }
  WINNOW_LANES __m256 WidenBFloat16(__m128i x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
  }
  WINNOW_LANES __m256 PowerOfTwo(__m256 n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }
  WINNOW_LANES __m256i BroadcastFour(const int8_t* x) {
    int32_t four;
    std::memcpy(&four, x, 4);
    return _mm256_set1_epi32(four);
  }
  // Eight pairs in two registers.
  WINNOW_LANES void SplitPairs(__m256 first, __m256 second, __m256* even, __m256* odd) {
    const __m256d e = _mm256_castps_pd(_mm256_shuffle_ps(first, second, 0x88));
    const __m256d o = _mm256_castps_pd(_mm256_shuffle_ps(first, second, 0xdd));
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(e, 0xd8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(o, 0xd8));
  }

#undef WINNOW_LANES
};

}  // namespace winnow::cpu
