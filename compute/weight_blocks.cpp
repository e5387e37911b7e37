// The layouts here are those of ggml's ggml-common.h (block_q*), in its order of bits; all numbers are little-endian.
#include "compute/weight_blocks.h"

#include <cstring>

#include "base/check.h"

namespace winnow {
namespace {

// Adding it changes no bit of any float (adding +0 would turn -0 into +0), so formats without a minimum need no case of
// their own.
constexpr float kNoMin = -0.0f;

// The 16 values of IQ4_NL and IQ4_XS (kvalues_iq4nl).
constexpr int8_t kNonLinear4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Floats and halves lie unaligned in files.
template <class T>
T Load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}
float LoadHalf(const uint8_t* bytes) {
  return HalfToFloat(Load<uint16_t>(bytes));
}

void SetScale(WeightBlock32* out, float scale, float min = kNoMin) {
  out->scale[0] = out->scale[1] = scale;
  out->min[0] = out->min[1] = min;
}

// 16 bytes of 4-bit numbers: the low halves are inputs 0..15, the high halves 16..31. Loops without a choice inside
// become vector instructions, which is what the time of loading a model is made of.
void TakeNibbles(const uint8_t* quants, int8_t* q) {
  for (int i = 0; i < 16; ++i) q[i] = int8_t(quants[i] & 15);
  for (int i = 0; i < 16; ++i) q[16 + i] = int8_t(quants[i] >> 4);
}
// Bit i of `high` is worth 16 in input i.
void AddHighBits(uint32_t high, int8_t* q) {
  for (int byte = 0; byte < 4; ++byte) {
    for (int i = 0; i < 8; ++i) q[8 * byte + i] = int8_t(q[8 * byte + i] | (high >> 8 * byte >> i & 1) << 4);
  }
}
void Subtract(int8_t offset, int8_t* q) {
  for (int i = 0; i < 32; ++i) q[i] = int8_t(q[i] - offset);
}

// Q4_0 {half d; u8 qs[16]}
void DecodeQ4_0(const uint8_t* p, WeightBlock32* out) {
  TakeNibbles(p + 2, out->q);
  Subtract(8, out->q);
  SetScale(out, LoadHalf(p));
}

// Q4_1 {half d, m; u8 qs[16]}
void DecodeQ4_1(const uint8_t* p, WeightBlock32* out) {
  TakeNibbles(p + 4, out->q);
  SetScale(out, LoadHalf(p), LoadHalf(p + 2));
}

// Q5_0 {half d; u32 qh; u8 qs[16]}: bit i of qh is bit 4 of input i.
void DecodeQ5_0(const uint8_t* p, WeightBlock32* out) {
  TakeNibbles(p + 6, out->q);
  AddHighBits(Load<uint32_t>(p + 2), out->q);
  Subtract(16, out->q);
  SetScale(out, LoadHalf(p));
}

// Q5_1 {half d, m; u32 qh; u8 qs[16]}
void DecodeQ5_1(const uint8_t* p, WeightBlock32* out) {
  TakeNibbles(p + 8, out->q);
  AddHighBits(Load<uint32_t>(p + 4), out->q);
  SetScale(out, LoadHalf(p), LoadHalf(p + 2));
}

// Q8_0 {half d; i8 qs[32]}
void DecodeQ8_0(const uint8_t* p, WeightBlock32* out) {
  std::memcpy(out->q, p + 2, 32);
  SetScale(out, LoadHalf(p));
}

// IQ4_NL {half d; u8 qs[16]}
void DecodeIq4Nl(const uint8_t* p, WeightBlock32* out) {
  TakeNibbles(p + 2, out->q);
  for (int i = 0; i < 32; ++i) out->q[i] = kNonLinear4[out->q[i]];
  SetScale(out, LoadHalf(p));
}

// The K formats hold 256 inputs; b = 0..7 is the block of 32 within them.

// Q2_K {u8 scales[16]; u8 qs[64]; half d, dmin}: a scale byte per 16 inputs, scale low and minimum high; qs[32] holds
// four blocks, two bits each.
void DecodeQ2K(const uint8_t* p, int b, WeightBlock32* out) {
  const uint8_t* quants = p + 16 + 32 * (b / 4);
  const float d = LoadHalf(p + 80), d_min = LoadHalf(p + 82);
  for (int i = 0; i < 32; ++i) out->q[i] = int8_t(quants[i] >> 2 * (b % 4) & 3);
  for (int half = 0; half < 2; ++half) {
    const int scale = p[2 * b + half];
    out->scale[half] = d * float(scale & 15);
    out->min[half] = -(d_min * float(scale >> 4));
  }
}

// Q3_K {u8 hmask[32]; u8 qs[64]; u8 scales[12]; half d}: bit b of hmask[i] set means "do not subtract 4". 16 scales of
// 6 bits: the low four in the halves of bytes 0..7, the high two in bytes 8..11.
void DecodeQ3K(const uint8_t* p, int b, WeightBlock32* out) {
  const uint8_t* quants = p + 32 + 32 * (b / 4);
  const uint8_t* scales = p + 96;
  const float d = LoadHalf(p + 108);
  for (int i = 0; i < 32; ++i) {
    out->q[i] = int8_t((quants[i] >> 2 * (b % 4) & 3) - (p[i] >> b & 1 ? 0 : 4));
  }
  for (int half = 0; half < 2; ++half) {
    const int s = 2 * b + half;
    const int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
    const int high = scales[8 + s % 4] >> 2 * (s / 4) & 3;
    out->scale[half] = d * float((low | high << 4) - 32);
    out->min[half] = kNoMin;
  }
}

// Q4_K and Q5_K share {half d, dmin; u8 scales[12]}: 8 scales and 8 minima of 6 bits. The first four of each lie in the
// low bits of bytes 0..3 and 4..7; the last four have their low halves in bytes 8..11 and their high two bits on top of
// the first eight bytes.
void SetScaleMinK(const uint8_t* p, int b, WeightBlock32* out) {
  const uint8_t* scales = p + 4;
  int scale = scales[b] & 63, min = scales[b + 4] & 63;
  if (b >= 4) {
    scale = (scales[b + 4] & 15) | scales[b - 4] >> 6 << 4;
    min = scales[b + 4] >> 4 | scales[b] >> 6 << 4;
  }
  SetScale(out, LoadHalf(p) * float(scale), -(LoadHalf(p + 2) * float(min)));
}

// Q4_K {...; u8 qs[128]}: 32 bytes hold two blocks, the first in the low halves.
void DecodeQ4K(const uint8_t* p, int b, WeightBlock32* out) {
  const uint8_t* quants = p + 16 + 32 * (b / 2);
  for (int i = 0; i < 32; ++i) out->q[i] = int8_t(quants[i] >> 4 * (b % 2) & 15);
  SetScaleMinK(p, b, out);
}

// Q5_K {...; u8 qh[32]; u8 qs[128]}: bit b of qh[i] is bit 4.
void DecodeQ5K(const uint8_t* p, int b, WeightBlock32* out) {
  const uint8_t* quants = p + 48 + 32 * (b / 2);
  for (int i = 0; i < 32; ++i) {
    out->q[i] = int8_t((quants[i] >> 4 * (b % 2) & 15) | (p[16 + i] >> b & 1) << 4);
  }
  SetScaleMinK(p, b, out);
}

// Q6_K {u8 ql[128]; u8 qh[64]; i8 scales[16]; half d}: of every 128 inputs, ql[64] holds blocks 0 and 1 in its low and
// 2 and 3 in its high halves, qh[32] two bits of each.
void DecodeQ6K(const uint8_t* p, int b, WeightBlock32* out) {
  const int j = b % 4;
  const uint8_t* low = p + 64 * (b / 4) + 32 * (j % 2);
  const uint8_t* high = p + 128 + 32 * (b / 4);
  const float d = LoadHalf(p + 208);
  for (int i = 0; i < 32; ++i) {
    out->q[i] = int8_t(((low[i] >> 4 * (j / 2) & 15) | (high[i] >> 2 * j & 3) << 4) - 32);
  }
  for (int half = 0; half < 2; ++half) {
    out->scale[half] = d * float(int8_t(p[192 + 2 * b + half]));
    out->min[half] = kNoMin;
  }
}

// IQ4_XS {half d; u16 scales_h; u8 scales_l[4]; u8 qs[128]}: 8 scales of 6 bits.
void DecodeIq4Xs(const uint8_t* p, int b, WeightBlock32* out) {
  const int low = p[4 + b / 2] >> 4 * (b % 2) & 15;
  const int high = Load<uint16_t>(p + 2) >> 2 * b & 3;
  TakeNibbles(p + 8 + 16 * b, out->q);
  for (int i = 0; i < 32; ++i) out->q[i] = kNonLinear4[out->q[i]];
  SetScale(out, LoadHalf(p) * float((low | high << 4) - 32));
}

}  // namespace

WeightArithmetic ArithmeticOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return WeightArithmetic::kFloat;
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
    case DType::kIQ4_NL:
      return WeightArithmetic::kScale;
    case DType::kQ4_1:
    case DType::kQ5_1:
      return WeightArithmetic::kScaleMin;
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
    case DType::kIQ4_XS:
      return WeightArithmetic::kSubScaleMin;
    case DType::kI32:
    case DType::kI64:
      break;
  }
  WINNOW_CHECK(!"a weight format");
  __builtin_unreachable();
}

void DecodeBlock32(DType dtype, const std::byte* row, int64_t block, WeightBlock32* out) {
  const int64_t blocks_per_unit = BlockElements(dtype) / 32;
  WINNOW_CHECK(blocks_per_unit > 0);
  const auto* p = reinterpret_cast<const uint8_t*>(row) + block / blocks_per_unit * BlockBytes(dtype);
  const int b = int(block % blocks_per_unit);
  switch (dtype) {
    case DType::kQ4_0:
      return DecodeQ4_0(p, out);
    case DType::kQ4_1:
      return DecodeQ4_1(p, out);
    case DType::kQ5_0:
      return DecodeQ5_0(p, out);
    case DType::kQ5_1:
      return DecodeQ5_1(p, out);
    case DType::kQ8_0:
      return DecodeQ8_0(p, out);
    case DType::kQ2_K:
      return DecodeQ2K(p, b, out);
    case DType::kQ3_K:
      return DecodeQ3K(p, b, out);
    case DType::kQ4_K:
      return DecodeQ4K(p, b, out);
    case DType::kQ5_K:
      return DecodeQ5K(p, b, out);
    case DType::kQ6_K:
      return DecodeQ6K(p, b, out);
    case DType::kIQ4_NL:
      return DecodeIq4Nl(p, out);
    case DType::kIQ4_XS:
      return DecodeIq4Xs(p, b, out);
    default:
      WINNOW_CHECK(!"a quantised format");
  }
}

void DequantiseRow(DType dtype, const std::byte* row, int64_t begin, int64_t count, float* out) {
  WINNOW_CHECK(begin % 32 == 0 && count % 32 == 0);
  const auto* bytes = reinterpret_cast<const uint8_t*>(row);
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, bytes + 4 * begin, size_t(4 * count));
      return;
    case DType::kF16:
      for (int64_t i = 0; i < count; ++i) out[i] = LoadHalf(bytes + 2 * (begin + i));
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < count; ++i) out[i] = BFloat16ToFloat(Load<uint16_t>(bytes + 2 * (begin + i)));
      return;
    default:
      break;
  }
  for (int64_t done = 0; done < count; done += 32) {
    WeightBlock32 block;
    DecodeBlock32(dtype, row, (begin + done) / 32, &block);
    for (int i = 0; i < 32; ++i) out[done + i] = block.scale[i / 16] * float(block.q[i]) + block.min[i / 16];
  }
}

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 31u, fraction = bits & 0x3ffu;
  if (exponent == 0) {  // zero or denormal: a multiple of 2^-24, exact in float
    const float magnitude = float(fraction) * 0x1p-24f;
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, magnitude));
  }
  const uint32_t wide = exponent == 31 ? 255u : exponent + (127 - 15);
  return __builtin_bit_cast(float, sign | wide << 23 | fraction << 13);
}

}  // namespace winnow
