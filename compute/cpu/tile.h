// Weight tiles of the CPU backend: 16 output rows x 32 inputs, lane = output row, so that a product needs no horizontal
// sum and an output's order of operations depends on K alone. Byte layouts, then how they are made and read back.
//
//   nibbles:   byte 64 * i + 4 * row + j holds input 4 * i + j (low) and 16 + 4 * i + j (high), i < 4
//   bytes:     byte 64 * i + 4 * row + j holds input 4 * i + j, i < 8
//   factors:   [scale][16 rows] and after all scales [min][16 rows], in half precision as in the file, or in float
//   elements:  [32 inputs][16 rows] as in the file, for the float kinds
#pragma once

#include <cstddef>
#include <cstdint>

#include "compute/dtype.h"
#include "compute/weight_blocks.h"

namespace winnow::cpu {

enum class TileKind {
  kNibbleScale,      // Q4_0
  kNibbleScaleMin,   // Q4_1
  kNibbleSub,        // Q4_K: both halves of a block share scale and min
  kNibbleSubTwice,   // Q2_K, Q3_K
  kFiveBitScale,     // Q5_0
  kFiveBitScaleMin,  // Q5_1
  kFiveBitSub,       // Q5_K
  kSixBitSub,        // Q6_K
  kByteScale,        // Q8_0, IQ4_NL
  kByteSub,          // IQ4_XS
  kHalf,             // F16
  kBFloat16,         // BF16
  kFloat,            // F32
};

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileInputs = 32;

constexpr bool IsFloatKind(TileKind kind) {
  return kind >= TileKind::kHalf;
}

// How a quantised kind is stored. All but the byte kinds hold q + offset >= 0, which multiplies activations with one
// instruction; offset * (sum of activations) is taken off the integer sum, which is exact.
struct TileForm {
  bool nibbles;
  bool is_signed;
  int offset;
  WeightArithmetic arithmetic;
  int num_factors;     // scales, and as many mins if the arithmetic has them; float for kSubScaleMin, otherwise half
  int groups_per_sum;  // groups of 4 inputs whose pairs of products add up within 16 bits

  constexpr int64_t q_bytes() const { return nibbles ? 256 : 512; }
  constexpr bool has_float_factors() const { return arithmetic == WeightArithmetic::kSubScaleMin; }
  constexpr int64_t factor_bytes() const { return has_float_factors() ? 64 : 32; }
  constexpr int64_t min_begin() const { return q_bytes() + num_factors * factor_bytes(); }
  constexpr int64_t bytes() const {
    return min_begin() + (arithmetic == WeightArithmetic::kScale ? 0 : num_factors * factor_bytes());
  }
};

constexpr TileForm FormOf(TileKind kind) {
  using enum WeightArithmetic;
  switch (kind) {
    case TileKind::kNibbleScale:  // 4 groups of nibbles: 8 * 15 * 127 = 15240 < 2^15
      return {true, false, 8, kScale, 1, 4};
    case TileKind::kNibbleScaleMin:
      return {true, false, 0, kScaleMin, 1, 4};
    case TileKind::kNibbleSub:
      return {true, false, 0, kSubScaleMin, 1, 4};
    case TileKind::kNibbleSubTwice:
      return {true, false, 8, kSubScaleMin, 2, 4};
    case TileKind::kFiveBitScale:  // 4 groups of 5 bits: 8 * 31 * 127 = 31496
      return {false, false, 16, kScale, 1, 4};
    case TileKind::kFiveBitScaleMin:
      return {false, false, 0, kScaleMin, 1, 4};
    case TileKind::kFiveBitSub:
      return {false, false, 0, kSubScaleMin, 1, 4};
    case TileKind::kSixBitSub:  // 2 groups of 6 bits: 4 * 63 * 127 = 32004
      return {false, false, 32, kSubScaleMin, 2, 2};
    case TileKind::kByteScale:  // 1 group of any int8: 2 * 128 * 127 = 32512
      return {false, true, 0, kScale, 1, 1};
    case TileKind::kByteSub:
      return {false, true, 0, kSubScaleMin, 1, 1};
    default:
      return {false, false, 0, kFloat, 0, 0};
  }
}

TileKind TileKindOf(DType dtype);

constexpr int64_t TileBytes(TileKind kind) {
  if (!IsFloatKind(kind)) return FormOf(kind).bytes();
  return kTileInputs * kTileRows * (kind == TileKind::kFloat ? 4 : 2);
}

// Writes one row (lane) of a tile from a decoded block, for the quantised kinds.
void WriteTileLane(TileKind kind, const WeightBlock32& block, int64_t lane, std::byte* tile);
// Writes `lanes` rows of a tile from 32 elements each, at from[lane] + offset, for the float kinds. The others stay.
void WriteFloatTile(TileKind kind, const std::byte* const* from, int64_t offset, int64_t lanes, std::byte* tile);
// De-quantises one lane of a tile into 32 floats, bit for bit as DequantiseRow does from the file.
void DequantiseTileLane(TileKind kind, const std::byte* tile, int64_t lane, float* out);

}  // namespace winnow::cpu
