#include "base/philox.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

// Known answers published with the Random123 library (kat_vectors, philox 4x32 10).
TEST(Philox, EqualsThePublishedKnownAnswers) {
  EXPECT_EQ(Philox(0, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~0ull, {~0u, ~0u, ~0u, ~0u}), (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0a4093822ull, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UnitFloatsStayInsideTheOpenInterval) {
  EXPECT_GT(OpenUnitFloat(0), 0.0f);
  EXPECT_LT(OpenUnitFloat(~0u), 1.0f);
}

}  // namespace
}  // namespace winnow
