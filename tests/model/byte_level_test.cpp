#include "model/byte_level.h"

#include <gtest/gtest.h>

#include <set>

namespace winnow {
namespace {

TEST(ByteLevel, SpellsEveryByteByItsOwnCharacter) {
  std::set<std::string> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = ByteLevelCharacter(uint8_t(byte));
    EXPECT_TRUE(seen.insert(character).second);
    EXPECT_EQ(ByteLevelToBytes(character), std::string(1, char(byte)));
  }
  EXPECT_EQ(ByteLevelCharacter('a'), "a");
  EXPECT_EQ(ByteLevelCharacter(' '), "\u0120");
  EXPECT_EQ(ByteLevelCharacter('\n'), "\u010a");
  EXPECT_EQ(ByteLevelCharacter(0xad), "\u0143");
}

TEST(ByteLevel, RefusesCharactersThatStandForNoByte) {
  EXPECT_EQ(ByteLevelToBytes("\u0120the"), " the");
  EXPECT_EQ(ByteLevelToBytes(""), "");
  for (const char* bad : {" ", "a b", "\n", "\u0144", "\u00ad", "\u20ac", "\xc4", "\xff", "\xc4z"}) {
    EXPECT_EQ(ByteLevelToBytes(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace winnow
