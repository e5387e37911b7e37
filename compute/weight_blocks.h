// The block formats of GGUF weights, decoded into one canonical form: 32 consecutive inputs of one row as
//   w[i] = scale[i / 16] * q[i] + min[i / 16],  q int8, scale and min float.
// Every backend packs from this form, so a format is written down once (layouts: ggml's ggml-common.h, ggml-quants.c).
//
// Arithmetic of a product with a quantised weight (contract, the same on every backend). Activations of a row are
// quantised in blocks of 16: top = max |x|; d = top / 127; r = 127 / top, or 0 where that is not finite (top is 0 or
// below 4e-37); a[i] = round to nearest even of x[i] * r. If any x[i] of the block is not finite, all a[i] = 0 and d =
// NaN. Blocks of 16, not of 32 as in ggml: the rounding error of the logits nearly halves in KL, for about 15 %
// of prefill speed (docs/exactness.md). Then, for the blocks of 16 inputs in order of K, with dot = the integer sum of
// q[i] * a[i] and asum = the integer sum of a[i]:
//   kScaleMin, kSubScaleMin: acc = fma(min, d * float(asum), acc)
//   all:                     acc = fma(float(dot), scale * d, acc)
//   kFloat instead:          acc = fma(w[k], x[k], acc) for every input k in order (x is not quantised)
// starting from acc = +0 at the first block of the matrix (or of the segment).
#pragma once

#include <cstddef>
#include <cstdint>

#include "compute/dtype.h"

namespace winnow {

enum class WeightArithmetic {
  kScale,        // Q4_0, Q5_0, Q8_0, IQ4_NL
  kScaleMin,     // Q4_1, Q5_1
  kSubScaleMin,  // Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS
  kFloat,        // F32, F16, BF16
};

WeightArithmetic ArithmeticOf(DType dtype);

struct WeightBlock32 {
  int8_t q[32];
  float scale[2];  // of inputs 0..15 and 16..31; equal for kScale and kScaleMin
  float min[2];
};

// Decodes inputs [32 * block, 32 * block + 32) of a row in a quantised format. `row` points to the row's first byte.
void DecodeBlock32(DType dtype, const std::byte* row, int64_t block, WeightBlock32* out);

// De-quantises inputs [begin, begin + count) of a row of any weight format into float; begin and count are multiples
// of 32. scale * q is rounded to float before min is added (as ggml does).
void DequantiseRow(DType dtype, const std::byte* row, int64_t begin, int64_t count, float* out);

// IEEE half and bfloat16.
float HalfToFloat(uint16_t bits);
inline float BFloat16ToFloat(uint16_t bits) {
  return __builtin_bit_cast(float, uint32_t(bits) << 16);
}
// Round to nearest even; NaN stays a (quiet) NaN.
inline uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t(bits >> 16 | 0x40u);
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace winnow
