#include "base/printable_text.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(Printable, OrdinaryTextStaysAsItIs) {
  for (const char* text : {"", "SmolLM2 135M", "한국어 é 😀 £", "\xc2", "\xff\xfe"}) EXPECT_EQ(Printable(text), text);
}

TEST(Printable, ControlCharactersBecomeSpaces) {
  EXPECT_EQ(Printable("\x1b[31mred\x07"), " [31mred ");
  EXPECT_EQ(Printable("a\nwinnow: b\r\tc\x7f"), "a winnow: b  c ");
  EXPECT_EQ(Printable("a\xc2\x9b"
                      "1mb"),
            "a  1mb");
  EXPECT_EQ(Printable(std::string("a\0b", 3)), "a b");
}

}  // namespace
}  // namespace winnow
