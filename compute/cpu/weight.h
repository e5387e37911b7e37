// A matrix packed into tiles for the CPU kernels. Made by CpuBackend::Pack on the engine thread, then read-only.
#pragma once

#include "base/thread_pool.h"
#include "compute/cpu/memory.h"
#include "compute/cpu/tile.h"
#include "compute/weight.h"

namespace winnow::cpu {

class CpuWeight final : public Weight {
 public:
  CpuWeight(DType dtype, int64_t rows, int64_t columns)
      : Weight(dtype, rows, columns), kind_(TileKindOf(dtype)), blocks_(columns / kTileInputs) {}

  // Fills the tiles from the file, each thread those rows of tiles that it later multiplies. False if there is no
  // memory.
  [[nodiscard]] bool Pack(const WeightSource& source, ThreadPool& pool);

  TileKind kind() const { return kind_; }
  int64_t blocks() const { return blocks_; }  // tiles along the inputs
  int64_t tile_rows() const { return (rows() + kTileRows - 1) / kTileRows; }
  const std::byte* tiles() const { return tiles_.data(); }  // [tile_rows][blocks]; rows beyond rows() are zero
  int64_t bytes() const override { return tile_rows() * blocks_ * TileBytes(kind_); }

  // De-quantises one row.
  void Dequantise(int64_t row, float* out) const;

 private:
  TileKind kind_;
  int64_t blocks_;
  Memory tiles_;
};

}  // namespace winnow::cpu
