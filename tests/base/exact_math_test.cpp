#include "base/exact_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace winnow {
namespace {

TEST(ExactMath, FloatExpIsWithinThreeUlpsOfTheLibrary) {
  for (float x = -86.9f; x < 88.0f; x += 0.0137f) {
    const double truth = std::exp(double(x));
    EXPECT_NEAR(ExactExp(x) / truth, 1.0, 3e-7) << x;
  }
}

TEST(ExactMath, FloatExpOfVerySmallNumbersAndNanIsZero) {
  EXPECT_EQ(ExactExp(-87.0f), 0.0f);
  EXPECT_EQ(ExactExp(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(ExactExp(std::numeric_limits<float>::quiet_NaN()), 0.0f);
  EXPECT_EQ(ExactExp(0.0f), 1.0f);
  EXPECT_EQ(ExactExp(1e30f), ExactExp(88.0f));
}

TEST(ExactMath, DoubleExpAndLogAgreeWithTheLibrary) {
  for (double x = -700; x <= 700; x += 0.73) EXPECT_NEAR(ExactExp(x) / std::exp(x), 1.0, 1e-14) << x;
  for (double x = 1e-30; x < 1e30; x *= 1.37) {
    EXPECT_NEAR(ExactLog(x), std::log(x), 1e-15 * std::max(1.0, std::fabs(std::log(x)))) << x;
  }
  EXPECT_EQ(ExactLog(1.0), 0.0);
}

TEST(ExactMath, ExponentialsOfManyValuesHaveTheBitsOfSingleOnes) {
  std::vector<double> values = {0.0, -0.0, -HUGE_VAL, HUGE_VAL, 701, -701, 1e-300};
  for (double x = -720; x <= 720; x += 0.371) values.push_back(x);
  std::vector<double> exps = values;
  ExactExps(exps);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(exps[i], ExactExp(values[i])) << values[i];
  EXPECT_TRUE(std::isnan(ExactExp(std::nan(""))));
}

TEST(ExactMath, SineAndCosineAgreeWithTheLibraryUpToLongContexts) {
  for (double angle : {0.0, 0.5, 1.5707963267948966, 3.0, -2.5, 100.25, 8191.0, 131071.5, 1048575.25, 16777215.0}) {
    const auto [sine, cosine] = ExactSinCos(angle);
    EXPECT_NEAR(sine, std::sin(angle), 2e-15) << angle;
    EXPECT_NEAR(cosine, std::cos(angle), 2e-15) << angle;
  }
}

TEST(ExactMath, PowersMatchTheRotaryFrequencies) {
  for (int i = 0; i < 64; ++i) EXPECT_NEAR(ExactPow(100000.0, -i / 64.0) / std::pow(100000.0, -i / 64.0), 1.0, 1e-13);
}

}  // namespace
}  // namespace winnow
