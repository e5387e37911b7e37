#include "compute/cpu/weight.h"

#include <algorithm>

#include "base/check.h"

namespace winnow::cpu {

bool CpuWeight::Pack(const WeightSource& source, ThreadPool& pool) {
  if (!tiles_.Grow(bytes())) return false;
  const int64_t row_bytes = BytesOf(source.dtype, source.file_columns);
  pool.For(tile_rows(), [&](int64_t begin, int64_t end) {
    for (int64_t row = kTileRows * begin; row < std::min(rows(), kTileRows * end); ++row) {
      WINNOW_CHECK(source.rows[row] >= 0 && (source.rows[row] + 1) * row_bytes <= int64_t(source.data.size()));
      const std::byte* from = source.data.data() + source.rows[row] * row_bytes;
      std::byte* tile = tiles_.data() + row / kTileRows * blocks_ * TileBytes(kind_);
      for (int64_t b = 0; b < blocks_; ++b, tile += TileBytes(kind_)) {
        if (IsFloatKind(kind_)) {
          const int64_t element = source.column_begin + kTileInputs * b;
          WriteFloatTileLane(kind_, from + BytesOf(source.dtype, element), row % kTileRows, tile);
        } else {
          WeightBlock32 block;
          DecodeBlock32(source.dtype, from, source.column_begin / kTileInputs + b, &block);
          WriteTileLane(kind_, block, row % kTileRows, tile);
        }
      }
    }
  });
  return true;
}

void CpuWeight::Dequantise(int64_t row, float* out) const {
  const std::byte* tile = tiles_.data() + row / kTileRows * blocks_ * TileBytes(kind_);
  for (int64_t b = 0; b < blocks_; ++b, tile += TileBytes(kind_)) {
    DequantiseTileLane(kind_, tile, row % kTileRows, out + kTileInputs * b);
  }
}

}  // namespace winnow::cpu
