#include "launch/number_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace winnow {
namespace {

TEST(NumberText, GroupsThousands) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(1234567), "1,234,567");
  EXPECT_EQ(Grouped(-123), "-123");
  EXPECT_EQ(Grouped(-1234), "-1,234");
}

TEST(NumberText, ShowsOneNumberForEachRank) {
  EXPECT_EQ(PerRank({1024}), "1,024");
  EXPECT_EQ(PerRank({2000, 1000}), "2,000 + 1,000");
}

TEST(NumberText, SizesHaveThreeDigitsOfTheirUnit) {
  EXPECT_EQ(BinarySize(0), "0 bytes");
  EXPECT_EQ(BinarySize(1023), "1023 bytes");
  EXPECT_EQ(BinarySize(1024), "1.00 KiB");
  EXPECT_EQ(BinarySize(98304000), "93.8 MiB");
  EXPECT_EQ(BinarySize((int64_t(1) << 20) - 1), "1.00 MiB");
  EXPECT_EQ(BinarySize(int64_t(200) << 30), "200 GiB");
  EXPECT_EQ(BinarySize(std::numeric_limits<int64_t>::max()), "8.00 EiB");
}

}  // namespace
}  // namespace winnow
