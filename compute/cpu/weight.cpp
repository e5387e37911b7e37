#include "compute/cpu/weight.h"

#include <algorithm>

#include "base/check.h"

namespace winnow::cpu {

bool CpuWeight::Pack(const WeightSource& source, ThreadPool& pool) {
  if (!tiles_.Grow(bytes())) return false;
  const int64_t row_bytes = BytesOf(source.dtype, source.file_columns);
  pool.For(tile_rows(), [&](int64_t begin, int64_t end) {
    for (int64_t tile_row = begin; tile_row < end; ++tile_row) {
      const std::byte* from[kTileRows];
      const int64_t lanes = std::min(kTileRows, rows() - kTileRows * tile_row);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const int64_t row = source.rows[size_t(kTileRows * tile_row + lane)];
        WINNOW_CHECK(row >= 0 && (row + 1) * row_bytes <= int64_t(source.data.size()));
        from[lane] = source.data.data() + row * row_bytes;
      }
      // Tile by tile, so that each is in the cache while its lanes are written.
      std::byte* tile = tiles_.data() + tile_row * blocks_ * TileBytes(kind_);
      for (int64_t b = 0; b < blocks_; ++b, tile += TileBytes(kind_)) {
        if (IsFloatKind(kind_)) {
          const int64_t offset = BytesOf(source.dtype, source.column_begin + kTileInputs * b);
          WriteFloatTile(kind_, from, offset, lanes, tile);
          continue;
        }
        for (int64_t lane = 0; lane < lanes; ++lane) {
          WeightBlock32 block;
          DecodeBlock32(source.dtype, from[lane], source.column_begin / kTileInputs + b, &block);
          WriteTileLane(kind_, block, lane, tile);
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
