// Decoding of GGUF blocks against what the Python package `gguf` makes of the same bytes
// (tests/golden/make_weight_blocks_golden.py).
#include "compute/weight_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace winnow {
namespace {

struct GoldenFormat {
  DType dtype;
  std::vector<std::byte> bytes;
  std::vector<float> floats;
};

std::vector<GoldenFormat> ReadGolden() {
  std::ifstream file(std::string(WINNOW_GOLDEN_DIR) + "/weight_blocks.bin", std::ios::binary);
  std::vector<GoldenFormat> formats;
  uint32_t header[3];
  while (file.read(reinterpret_cast<char*>(header), sizeof header)) {
    GoldenFormat format{DTypeFromGguf(header[0]).value(), std::vector<std::byte>(header[1]),
                        std::vector<float>(header[2])};
    file.read(reinterpret_cast<char*>(format.bytes.data()), header[1]);
    file.read(reinterpret_cast<char*>(format.floats.data()), std::streamsize(header[2] * sizeof(float)));
    EXPECT_TRUE(file.good());
    formats.push_back(std::move(format));
  }
  return formats;
}

uint32_t Bits(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

TEST(WeightBlocks, DequantiseEveryFormatToTheBitsOfTheGgufPackage) {
  const std::vector<GoldenFormat> formats = ReadGolden();
  ASSERT_EQ(formats.size(), 15u);
  for (const GoldenFormat& format : formats) {
    const int64_t count = int64_t(format.floats.size());
    ASSERT_EQ(BytesOf(format.dtype, count), int64_t(format.bytes.size())) << Name(format.dtype);
    std::vector<float> got(format.floats.size());
    DequantiseRow(format.dtype, format.bytes.data(), 0, count, got.data());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(Bits(got[i]), Bits(format.floats[i])) << Name(format.dtype) << " input " << i;
    }
  }
}

TEST(WeightBlocks, DequantiseARangeInTheMiddleOfARow) {
  for (const GoldenFormat& format : ReadGolden()) {
    float got[32];
    DequantiseRow(format.dtype, format.bytes.data(), 32, 32, got);
    EXPECT_EQ(std::memcmp(got, format.floats.data() + 32, sizeof got), 0) << Name(format.dtype);
  }
}

TEST(WeightBlocks, KeepTheFormOfTheirArithmetic) {
  for (const GoldenFormat& format : ReadGolden()) {
    const WeightArithmetic arithmetic = ArithmeticOf(format.dtype);
    if (arithmetic == WeightArithmetic::kFloat) continue;
    for (int64_t b = 0; b < int64_t(format.floats.size()) / 32; ++b) {
      WeightBlock32 block;
      DecodeBlock32(format.dtype, format.bytes.data(), b, &block);
      if (arithmetic != WeightArithmetic::kSubScaleMin) {
        EXPECT_EQ(Bits(block.scale[0]), Bits(block.scale[1])) << Name(format.dtype);
        EXPECT_EQ(Bits(block.min[0]), Bits(block.min[1])) << Name(format.dtype);
      }
      if (arithmetic == WeightArithmetic::kScale) {
        EXPECT_EQ(block.min[0], 0.0f) << Name(format.dtype);
      }
    }
  }
}

TEST(WeightBlocks, ConvertHalvesOfEveryKind) {
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0xc000), -2.0f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x03ff), 1023 * 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x0400), 0x1p-14f);
  EXPECT_EQ(Bits(HalfToFloat(0x8000)), 0x80000000u);
  EXPECT_EQ(HalfToFloat(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7c01)));
}

TEST(WeightBlocks, RoundFloatsToBFloat16NearestEven) {
  EXPECT_EQ(FloatToBFloat16(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBFloat16(__builtin_bit_cast(float, 0x3f808000u)), 0x3f80);  // a tie, to even below
  EXPECT_EQ(FloatToBFloat16(__builtin_bit_cast(float, 0x3f818000u)), 0x3f82);  // a tie, to even above
  EXPECT_EQ(FloatToBFloat16(__builtin_bit_cast(float, 0x3f808001u)), 0x3f81);
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7f80);  // overflows to infinity
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::infinity()), 0x7f80);
  // The low bits of this NaN alone are set: truncation would make it infinity.
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(__builtin_bit_cast(float, 0x7f800001u)))));
}

TEST(WeightBlocksDeathTest, RefuseToDecodeFormatsThatAreNotQuantised) {
  WeightBlock32 block;
  const float row[32] = {};
  EXPECT_DEATH(DecodeBlock32(DType::kF32, reinterpret_cast<const std::byte*>(row), 0, &block), "check failed");
  EXPECT_DEATH(ArithmeticOf(DType::kI32), "a weight format");
}

}  // namespace
}  // namespace winnow
