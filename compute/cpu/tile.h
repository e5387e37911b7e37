// Weight tiles of the CPU backend: 16 output rows x 32 inputs, lane = output row, so that a product needs no horizontal
// sum and an output's order of operations depends on K alone. Byte layouts, then how they are made and read back.
//
//   bytes of q, nibbles: 64 * i + 4 * row + j holds input 4 * i + j (low) and 16 + 4 * i + j (high), i < 4
//   bytes of q, int8:    64 * i + 4 * row + j holds input 4 * i + j, i < 8
//   float kinds:         [32 inputs][16 rows] elements as in the file
#pragma once

#include <cstddef>
#include <cstdint>

#include "compute/dtype.h"
#include "compute/weight_blocks.h"

namespace winnow::cpu {

enum class TileKind {
  kNibbleScale,     // Q4_0: nibbles q + 8, f16 scale[16]
  kNibbleScaleMin,  // Q4_1: nibbles, f16 scale[16], f16 min[16]
  kByteScale,       // Q8_0, IQ4_NL: int8, f16 scale[16]
  kShortScale,      // Q5_0: the same, |q| <= 32, so that 16 products fit 16 bits
  kShortScaleMin,   // Q5_1: int8 0..31, f16 scale[16], f16 min[16]
  kByteSub,         // IQ4_XS: int8, float scale[2][16], float min[2][16]
  kShortSub,        // Q2_K .. Q6_K: the same, |q| <= 32
  kHalf,            // F16
  kBFloat16,        // BF16
  kFloat,           // F32
};

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileInputs = 32;

TileKind TileKindOf(DType dtype);
constexpr int64_t TileBytes(TileKind kind) {
  switch (kind) {
    case TileKind::kNibbleScale:
      return 256 + 32;
    case TileKind::kNibbleScaleMin:
      return 256 + 64;
    case TileKind::kByteScale:
    case TileKind::kShortScale:
      return 512 + 32;
    case TileKind::kShortScaleMin:
      return 512 + 64;
    case TileKind::kByteSub:
    case TileKind::kShortSub:
      return 512 + 256;
    case TileKind::kHalf:
    case TileKind::kBFloat16:
      return kTileInputs * kTileRows * 2;
    case TileKind::kFloat:
      return kTileInputs * kTileRows * 4;
  }
  return 0;
}
inline bool IsFloatKind(TileKind kind) {
  return kind >= TileKind::kHalf;
}

// Writes one row (lane) of a tile from a decoded block, for the quantised kinds.
void WriteTileLane(TileKind kind, const WeightBlock32& block, int64_t lane, std::byte* tile);
// Writes one lane from 32 elements of a file row, for the float kinds.
void WriteFloatTileLane(TileKind kind, const std::byte* elements, int64_t lane, std::byte* tile);
// De-quantises one lane of a tile into 32 floats, bit for bit as DequantiseRow does from the file.
void DequantiseTileLane(TileKind kind, const std::byte* tile, int64_t lane, float* out);

}  // namespace winnow::cpu
