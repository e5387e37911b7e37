#include "model/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

namespace winnow {
namespace {

TEST(RotaryTable, EqualsTheMathLibraryToFloatRounding) {
  for (double theta : {10000.0, 1e5, 5e5}) {
    for (int64_t head_dim : {32, 64, 128}) {
      RotaryTable table(theta, head_dim);
      for (int64_t position : {0, 1, 2, 17, 1000, 8191}) {
        const auto row = table.CosSin(position);
        ASSERT_EQ(int64_t(row.size()), head_dim);
        for (int64_t i = 0; i < head_dim / 2; ++i) {
          const double angle = double(position) * std::pow(theta, -2.0 * double(i) / double(head_dim));
          // 2e-12: angles up to 8,191 rad whose frequency has a relative error of 2e-16.
          EXPECT_NEAR(row[size_t(i)], std::cos(angle), 0x1p-24 + 2e-12) << theta << " " << position << " " << i;
          EXPECT_NEAR(row[size_t(i + head_dim / 2)], std::sin(angle), 0x1p-24 + 2e-12);
        }
      }
    }
  }
}

TEST(RotaryTable, PositionZeroTurnsNothing) {
  RotaryTable table(10000, 8);
  const auto row = table.CosSin(0);
  EXPECT_EQ(std::vector<float>(row.begin(), row.end()), (std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST(RotaryTable, BitsDoNotDependOnTheOrderInWhichPositionsCome) {
  RotaryTable up(10000, 64), down(10000, 64);
  for (int64_t position = 300; position >= 0; position -= 50) {
    const auto row = down.CosSin(position);
    const std::vector<float> from_down(row.begin(), row.end());
    const auto other = up.CosSin(position);
    EXPECT_EQ(from_down, std::vector<float>(other.begin(), other.end()));
  }
  RotaryTable fresh(10000, 64);
  for (int64_t position = 0; position <= 300; ++position) {
    const auto row = fresh.CosSin(position), other = up.CosSin(position);
    ASSERT_TRUE(std::equal(row.begin(), row.end(), other.begin(), other.end())) << position;
  }
}

TEST(RotaryTableDeathTest, RefusesAnOddHeadAndNegativePositions) {
  EXPECT_DEATH(RotaryTable(10000, 7), "");
  EXPECT_DEATH(RotaryTable(0, 8), "");
  RotaryTable table(10000, 8);
  EXPECT_DEATH(table.CosSin(-1), "");
}

}  // namespace
}  // namespace winnow
