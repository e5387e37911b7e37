// Tiles of the CPU backend keep what the file says.
#include "compute/cpu/tile.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/compute/device_tensors.h"

namespace winnow {
namespace {

TEST(CpuTile, KeepsEveryHalfPrecisionScale) {
  WeightBlock32 block = {};
  block.q[0] = block.q[16] = 1;
  std::vector<std::byte> tile(size_t(cpu::TileBytes(cpu::TileKind::kByteScale)));
  float out[cpu::kTileInputs];
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float scale = HalfToFloat(uint16_t(bits));
    if (scale != scale) continue;  // stays a NaN, which one is no part of the contract
    block.scale[0] = block.scale[1] = scale;
    cpu::WriteTileLane(cpu::TileKind::kByteScale, block, int64_t(bits % 16), tile.data());
    cpu::DequantiseTileLane(cpu::TileKind::kByteScale, tile.data(), int64_t(bits % 16), out);
    ASSERT_EQ(FloatBits(out[16]), FloatBits(scale)) << bits;
    ASSERT_EQ(FloatBits(out[0]), FloatBits(scale)) << bits;
  }
}

}  // namespace
}  // namespace winnow
