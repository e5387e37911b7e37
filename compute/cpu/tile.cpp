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

// 8 rows of 8 elements, at from[row] + offset, as 8 columns: element i of all rows stands at to + 16 * i elements.
// Three rounds, each of which interleaves rows that are 4 apart: row r holds, after all of them, what column r held.
template <class T>
void Transpose8(const std::byte* const* from, int64_t offset, std::byte* to) {
  using Vector [[gnu::vector_size(8 * sizeof(T))]] = T;
  Vector rows[8], mixed[8];
  for (int r = 0; r < 8; ++r) std::memcpy(&rows[r], from[r] + offset, sizeof(Vector));
  for (int round = 0; round < 3; ++round) {
    for (int r = 0; r < 4; ++r) {
      mixed[2 * r] = __builtin_shufflevector(rows[r], rows[r + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      mixed[2 * r + 1] = __builtin_shufflevector(rows[r], rows[r + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    for (int r = 0; r < 8; ++r) rows[r] = mixed[r];
  }
  for (int i = 0; i < 8; ++i) std::memcpy(to + int64_t(sizeof(T)) * kTileRows * i, &rows[i], sizeof(Vector));
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
  // First in the order of inputs, where the loops become vector instructions; then to their places, four at a time.
  alignas(32) uint8_t bytes[kTileInputs];
  for (int64_t i = 0; i < kTileInputs; ++i) {
    WINNOW_DCHECK(form.is_signed || (block.q[i] + form.offset >= 0 && block.q[i] + form.offset < 256));
    bytes[i] = uint8_t(block.q[i] + form.offset);
  }
  if (form.nibbles) {
    for (int64_t i = 0; i < 16; ++i) bytes[i] = uint8_t((bytes[i] & 15) | bytes[16 + i] << 4);
  }
  for (int64_t i = 0; i < form.q_bytes() / 64; ++i) std::memcpy(tile + ByteOffset(4 * i, lane), bytes + 4 * i, 4);
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

void WriteFloatTile(TileKind kind, const std::byte* const* from, int64_t offset, int64_t lanes, std::byte* tile) {
  const int64_t size = kind == TileKind::kFloat ? 4 : 2;
  if (lanes == kTileRows) {
    for (int64_t lane = 0; lane < kTileRows; lane += 8) {
      for (int64_t input = 0; input < kTileInputs; input += 8) {
        std::byte* to = tile + size * (kTileRows * input + lane);
        if (size == 2) Transpose8<uint16_t>(from + lane, offset + size * input, to);
        if (size == 4) Transpose8<uint32_t>(from + lane, offset + size * input, to);
      }
    }
    return;
  }
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (int64_t i = 0; i < kTileInputs; ++i) {
      std::memcpy(tile + size * (kTileRows * i + lane), from[lane] + offset + size * i, size_t(size));
    }
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
