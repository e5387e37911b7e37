#include "model/utf8_stream.h"

#include <gtest/gtest.h>

#include "base/philox.h"
#include "model/utf8.h"

namespace winnow {
namespace {

// U+FFFD as UTF-8.
#define R "\xef\xbf\xbd"

std::string Whole(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.Push(bytes);
  return text + stream.Finish();
}

TEST(Utf8Stream, HoldsBackWhatMayBecomeACodePoint) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("a\xf0"), "a");
  EXPECT_EQ(stream.Push("\x9f"), "");
  EXPECT_EQ(stream.Push("\x98\x80 b\xc3"), "\xf0\x9f\x98\x80 b");
  EXPECT_EQ(stream.Push(""), "");
  EXPECT_EQ(stream.Push("\xa9"), "\xc3\xa9");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Utf8Stream, ReplacesMaximalSubparts) {
  // The example of the Unicode Standard, chapter 3, "U+FFFD Substitution of Maximal Subparts" (tables 3-8 to 3-11).
  EXPECT_EQ(Whole("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82"
                  "A"),
            R R R R R R R R "A");
  EXPECT_EQ(Whole("\xed\xa0\x80\xed\xbf\xbf\xed\xaf"
                  "A"),
            R R R R R R R R "A");
  EXPECT_EQ(Whole("\xf4\x91\x92\x93\xff"
                  "A\x80\xbf"
                  "B"),
            R R R R R "A" R R "B");
  EXPECT_EQ(Whole("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf"
                  "A"),
            R R R R "A");
}

TEST(Utf8Stream, EndsAnUnfinishedCodePointWithOneReplacementAndStartsAnew) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("\xf0\x9f\x98"), "");
  EXPECT_EQ(stream.Finish(), R);
  EXPECT_EQ(stream.Push("\x80x"), R "x");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Utf8Stream, GivesTheSameTextHoweverTheBytesAreCut) {
  for (uint32_t trial = 0; trial < 2000; ++trial) {
    std::string bytes;
    for (uint32_t i = 0; i < 24; ++i) {
      // Mostly bytes from U+0080 on, so that leads meet continuations.
      const PhiloxBlock random = Philox(2, {trial, i, 0, 0});
      bytes.push_back(char(random[0] % 4 == 0 ? random[1] & 0x7f : 0x80 | (random[1] & 0x7f)));
    }
    const std::string whole = Whole(bytes);
    ASSERT_EQ(FindInvalidUtf8(whole), std::nullopt);
    Utf8Stream stream;
    std::string cut;
    for (const char byte : bytes) {
      const std::string text = stream.Push({&byte, 1});
      ASSERT_EQ(FindInvalidUtf8(text), std::nullopt);
      cut += text;
    }
    ASSERT_EQ(cut + stream.Finish(), whole);
  }
}

#undef R

}  // namespace
}  // namespace winnow
