#include "compute/cpu/tile.h"

#include <cstring>

#include "base/check.h"

namespace winnow::cpu {
namespace {

constexpr int64_t kNibbleBytes = 256, kInt8Bytes = 512;

// Where input i of a lane lies among the bytes of q.
int64_t ByteOffset(int64_t input, int64_t lane) {
  return 64 * (input / 4) + 4 * lane + input % 4;
}

// The scale was a half in the file, so the conversion back is exact.
void PutHalf(float value, std::byte* to, int64_t lane) {
  const _Float16 half = static_cast<_Float16>(value);
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

bool HasNibbles(TileKind kind) {
  return kind == TileKind::kNibbleScale || kind == TileKind::kNibbleScaleMin;
}
bool HasSubScales(TileKind kind) {
  return kind == TileKind::kByteSub || kind == TileKind::kShortSub;
}
bool HasMin(TileKind kind) {
  return kind == TileKind::kNibbleScaleMin || kind == TileKind::kShortScaleMin;
}

}  // namespace

TileKind TileKindOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return TileKind::kNibbleScale;
    case DType::kQ4_1:
      return TileKind::kNibbleScaleMin;
    case DType::kQ8_0:
    case DType::kIQ4_NL:
      return TileKind::kByteScale;
    case DType::kQ5_0:
      return TileKind::kShortScale;
    case DType::kQ5_1:
      return TileKind::kShortScaleMin;
    case DType::kIQ4_XS:
      return TileKind::kByteSub;
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return TileKind::kShortSub;
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
  if (HasNibbles(kind)) {
    const int offset = kind == TileKind::kNibbleScale ? 8 : 0;
    for (int64_t i = 0; i < 16; ++i) {
      const int low = block.q[i] + offset, high = block.q[i + 16] + offset;
      WINNOW_DCHECK(low >= 0 && low < 16 && high >= 0 && high < 16);
      tile[ByteOffset(i, lane)] = std::byte(low | high << 4);
    }
  } else {
    for (int64_t i = 0; i < 32; ++i) tile[ByteOffset(i, lane)] = std::byte(block.q[i]);
  }
  std::byte* factors = tile + (HasNibbles(kind) ? kNibbleBytes : kInt8Bytes);
  if (HasSubScales(kind)) {
    for (int64_t half = 0; half < 2; ++half) {
      PutFloat(block.scale[half], factors + 64 * half, lane);
      PutFloat(block.min[half], factors + 128 + 64 * half, lane);
    }
    return;
  }
  PutHalf(block.scale[0], factors, lane);
  if (HasMin(kind)) PutHalf(block.min[0], factors + 32, lane);
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
  const std::byte* factors = tile + (HasNibbles(kind) ? kNibbleBytes : kInt8Bytes);
  for (int64_t i = 0; i < kTileInputs; ++i) {
    int q;
    if (HasNibbles(kind)) {
      const int both = std::to_integer<int>(tile[ByteOffset(i % 16, lane)]);
      q = (i < 16 ? both & 15 : both >> 4) - (kind == TileKind::kNibbleScale ? 8 : 0);
    } else {
      q = int8_t(tile[ByteOffset(i, lane)]);
    }
    if (HasSubScales(kind)) {
      out[i] = GetFloat(factors + 64 * (i / 16), lane) * float(q) + GetFloat(factors + 128 + 64 * (i / 16), lane);
    } else {
      out[i] = GetHalf(factors, lane) * float(q);
      if (HasMin(kind)) out[i] += GetHalf(factors + 32, lane);
    }
  }
}

}  // namespace winnow::cpu
