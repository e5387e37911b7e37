#include "compute/cpu/tile.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace winnow::cpu {
namespace {

// Where input i of a lane lies among the bytes of q.
int64_t ByteOffset(int64_t input, int64_t lane) {
  return 64 * (input / 4) + 4 * lane + input % 4;
}

// The scale was a half in the file, so the conversion back is exact and only moves bits. (clang 14 has no _Float16.)
uint16_t HalfOf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
  if (exponent == 0) return uint16_t(sign);
  if (exponent == 0xff) return uint16_t(sign | 0x7c00 | fraction >> 13);
  if (exponent < 113) return uint16_t(sign | (fraction | 0x800000) >> (126 - exponent));  // denormal as a half
  return uint16_t(sign | (exponent - 112) << 10 | fraction >> 13);
}
void PutHalf(float value, std::byte* to, int64_t lane) {
  const uint16_t half = HalfOf(value);
  std::memcpy(to + 2 * lane, &half, 2);
}
float GetHalf(const std::byte* from, int64_t lane) {
  uint16_t bits;
  std::memcpy(&bits, from + 2 * lane, 2);
  return HalfToFloat(bits);
}
void PutFloat(float value, std::byte* to, int64_t lane) {
  std::memcpy(to + 4 * lane, &value, 4);
}
float GetFloat(const std::byte* from, int64_t lane) {
  float value;
  std::memcpy(&value, from + 4 * lane, 4);
  return value;
}

}  // namespace

TileKind TileKindOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return TileKind::kNibbleScale;
    case DType::kQ4_1:
      return TileKind::kNibbleScaleMin;
    case DType::kQ2_K:
    case DType::kQ3_K:
      return TileKind::kNibbleSubTwice;
    case DType::kQ4_K:
      return TileKind::kNibbleSub;
    case DType::kQ5_0:
      return TileKind::kFiveBitScale;
    case DType::kQ5_1:
      return TileKind::kFiveBitScaleMin;
    case DType::kQ5_K:
      return TileKind::kFiveBitSub;
    case DType::kQ6_K:
      return TileKind::kSixBitSub;
    case DType::kQ8_0:
    case DType::kIQ4_NL:
      return TileKind::kByteScale;
    case DType::kIQ4_XS:
      return TileKind::kByteSub;
    case DType::kF16:
      return TileKind::kHalf;
    case DType::kBF16:
      return TileKind::kBFloat16;
    default:
      WINNOW_CHECK(dtype == DType::kF32);
      return TileKind::kFloat;
  }
}

void WriteTileLane(TileKind kind, const WeightBlock32& block, int64_t lane, std::byte* tile) {
  const TileForm form = FormOf(kind);
  const int top = form.nibbles ? 15 : 255;
  for (int64_t i = 0; i < kTileInputs; ++i) {
    const int q = block.q[i] + form.offset;
    WINNOW_DCHECK(form.is_signed || (q >= 0 && q <= top));
    std::byte& to = tile[ByteOffset(form.nibbles ? i % 16 : i, lane)];
    to = form.nibbles && i >= 16 ? to | std::byte(q << 4) : std::byte(q & top);
  }
  for (int i = 0; i < form.num_factors; ++i) {
    std::byte* scale = tile + form.q_bytes() + i * form.factor_bytes();
    std::byte* min = tile + form.min_begin() + i * form.factor_bytes();
    if (form.has_float_factors()) {
      PutFloat(block.scale[i], scale, lane);
      PutFloat(block.min[i], min, lane);
    } else {
      PutHalf(block.scale[i], scale, lane);
      if (form.arithmetic == WeightArithmetic::kScaleMin) PutHalf(block.min[i], min, lane);
    }
  }
}

void WriteFloatTileLane(TileKind kind, const std::byte* elements, int64_t lane, std::byte* tile) {
  const int64_t size = kind == TileKind::kFloat ? 4 : 2;
  for (int64_t i = 0; i < kTileInputs; ++i) {
    std::memcpy(tile + size * (kTileRows * i + lane), elements + size * i, size_t(size));
  }
}

void DequantiseTileLane(TileKind kind, const std::byte* tile, int64_t lane, float* out) {
  if (IsFloatKind(kind)) {
    for (int64_t i = 0; i < kTileInputs; ++i) {
      const int64_t element = kTileRows * i + lane;
      if (kind == TileKind::kFloat) {
        out[i] = GetFloat(tile, element);
      } else if (kind == TileKind::kHalf) {
        out[i] = GetHalf(tile, element);
      } else {
        uint16_t bits;
        std::memcpy(&bits, tile + 2 * element, 2);
        out[i] = BFloat16ToFloat(bits);
      }
    }
    return;
  }
  const TileForm form = FormOf(kind);
  for (int64_t i = 0; i < kTileInputs; ++i) {
    const int byte = std::to_integer<int>(tile[ByteOffset(form.nibbles ? i % 16 : i, lane)]);
    const int unsigned_q = form.nibbles ? (i < 16 ? byte & 15 : byte >> 4) : byte;
    const float q = float(form.is_signed ? int8_t(byte) : unsigned_q - form.offset);
    const int64_t factor = form.num_factors == 2 ? i / 16 * form.factor_bytes() : 0;
    const std::byte* scale = tile + form.q_bytes() + factor;
    const std::byte* min = tile + form.min_begin() + factor;
    if (form.has_float_factors()) {
      out[i] = GetFloat(scale, lane) * q + GetFloat(min, lane);
    } else {
      out[i] = GetHalf(scale, lane) * q;
      if (form.arithmetic == WeightArithmetic::kScaleMin) out[i] += GetHalf(min, lane);
    }
  }
}

}  // namespace winnow::cpu
