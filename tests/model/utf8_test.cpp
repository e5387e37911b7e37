#include "model/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace winnow {
namespace {

std::string Encode(uint32_t c) {
  if (c < 0x80) return {char(c)};
  if (c < 0x800) return {char(0xc0 | c >> 6), char(0x80 | (c & 0x3f))};
  if (c < 0x10000) return {char(0xe0 | c >> 12), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
  return {char(0xf0 | c >> 18), char(0x80 | (c >> 12 & 0x3f)), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
}

TEST(Utf8, AcceptsEveryCodePointAndRefusesSurrogatesAndWhatLiesAbove) {
  for (uint32_t c = 0; c < 0x120000; ++c) {
    const std::string text = Encode(c);
    const bool is_scalar = c < 0xd800 || (c > 0xdfff && c < 0x110000);
    ASSERT_EQ(!FindInvalidUtf8(text), is_scalar) << std::hex << c;
    if (is_scalar) {
      ASSERT_EQ(FirstUtf8Unit(text).num_bytes, text.size()) << std::hex << c;
    }
  }
}

TEST(Utf8, NamesTheOffsetOfTheFirstBadByte) {
  EXPECT_EQ(FindInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("0123456789abcdef"), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("0123456789\xff"), 10u);
  EXPECT_EQ(FindInvalidUtf8("01234567\xc3\xa9\x80z"), 10u);
  EXPECT_EQ(FindInvalidUtf8("caf\xc3"), 3u);           // unfinished at the end
  EXPECT_EQ(FindInvalidUtf8("\xc0\x80"), 0u);          // overlong
  EXPECT_EQ(FindInvalidUtf8("a\xe0\x80\xaf"), 1u);     // overlong
  EXPECT_EQ(FindInvalidUtf8("a\xed\xa0\x80"), 1u);     // surrogate
  EXPECT_EQ(FindInvalidUtf8("\xf4\x90\x80\x80"), 0u);  // past U+10FFFF
}

TEST(Utf8, MeasuresMaximalSubparts) {
  EXPECT_EQ(FirstUtf8Unit("\xf0\x9f\x98x").kind, Utf8Kind::kInvalid);
  EXPECT_EQ(FirstUtf8Unit("\xf0\x9f\x98x").num_bytes, 3u);
  EXPECT_EQ(FirstUtf8Unit("\xf0\x9f\x98").kind, Utf8Kind::kIncomplete);
  EXPECT_EQ(FirstUtf8Unit("\xe0\x80").num_bytes, 1u);
  EXPECT_EQ(FirstUtf8Unit("\xe0\x80").kind, Utf8Kind::kInvalid);
}

}  // namespace
}  // namespace winnow
