#include "model/rotary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

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

// Against the formulas as transformers' modeling_rope_utils.py has them.
TEST(RotaryTable, StretchesFrequenciesAsTheScalingSays) {
  constexpr double kTheta = 10000, kPi = 3.14159265358979323846;
  constexpr int64_t kDim = 64;
  const auto plain = [&](size_t i) { return std::pow(kTheta, -2.0 * double(i) / double(kDim)); };
  const auto expect = [&](const RopeScaling& scaling, const std::function<double(size_t)>& frequency) {
    const RotaryTable table(kTheta, kDim, scaling);
    ASSERT_EQ(table.frequencies().size(), size_t(kDim / 2));
    for (size_t i = 0; i < size_t(kDim / 2); ++i) {
      EXPECT_NEAR(table.frequencies()[i], frequency(i), 1e-14 * plain(i)) << i;
    }
  };
  expect({.type = RopeScaling::Type::kLinear, .factor = 4}, [&](size_t i) { return plain(i) / 4; });
  std::vector<float> factors;
  for (int i = 0; i < kDim / 2; ++i) factors.push_back(1 + 0.5f * float(i));
  expect({.type = RopeScaling::Type::kFactors, .factors = factors},
         [&](size_t i) { return plain(i) / (1 + 0.5 * double(i)); });
  int stretched = 0, between = 0, kept = 0;
  expect({.type = RopeScaling::Type::kLlama3, .factor = 8, .original_context = 8192}, [&](size_t i) {
    const double wave = 2 * kPi / plain(i);
    if (wave < 8192.0 / 4) return ++kept, plain(i);
    if (wave > 8192.0) return ++stretched, plain(i) / 8;
    const double smooth = (8192 / wave - 1) / 3;
    return ++between, (1 - smooth) * plain(i) / 8 + smooth * plain(i);
  });
  EXPECT_TRUE(stretched > 0 && between > 0 && kept > 0) << stretched << between << kept;
  const auto turns = [&](double n) { return kDim * std::log(2048 / (n * 2 * kPi)) / (2 * std::log(kTheta)); };
  const double low = std::floor(turns(32)), high = std::ceil(turns(1));
  ASSERT_TRUE(low > 0 && high < kDim / 2);
  expect({.type = RopeScaling::Type::kYarn, .factor = 4, .original_context = 2048}, [&](size_t i) {
    const double ramp = std::clamp((double(i) - low) / (high - low), 0.0, 1.0);
    return plain(i) / 4 * ramp + plain(i) * (1 - ramp);
  });
}

// Compacted positions and expected-attention turn stored keys and queries by frequencies(): what CosSin turned.
TEST(RotaryTable, FrequenciesAreThoseOfCosinesAndSinesUpToTheAttentionFactor) {
  using Type = RopeScaling::Type;
  for (const Type type : {Type::kNone, Type::kLinear, Type::kLlama3, Type::kYarn, Type::kFactors}) {
    const RopeScaling scaling{.type = type,
                              .factor = 4,
                              .original_context = 512,
                              .attention_factor = 1.25,
                              .factors = std::vector<float>(16, 3.0f)};
    RotaryTable table(10000, 32, scaling);
    const double size = type == Type::kYarn ? 1.25 : 1;
    for (const int64_t position : {1, 90, 700}) {
      const auto row = table.CosSin(position);
      for (size_t i = 0; i < 16; ++i) {
        const double angle = double(position) * table.frequencies()[i];
        EXPECT_NEAR(row[i], size * std::cos(angle), 2e-7) << position << " " << i;
        EXPECT_NEAR(row[16 + i], size * std::sin(angle), 2e-7) << position << " " << i;
      }
    }
  }
}

TEST(RotaryTable, YarnsAttentionFactorIsInCosinesAndSines) {
  const RopeScaling scaling{.type = RopeScaling::Type::kYarn, .original_context = 64, .attention_factor = 1.5};
  RotaryTable table(10000, 8, scaling), plain(10000, 8);
  const auto row = table.CosSin(3), other = plain.CosSin(3);  // a factor of 1 stretches nothing
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(row[i], 1.5f * other[i], 2e-7f);
}

TEST(RotaryTableDeathTest, RefusesAnOddHeadAndNegativePositions) {
  EXPECT_DEATH(RotaryTable(10000, 7), "");
  EXPECT_DEATH(RotaryTable(0, 8), "");
  RotaryTable table(10000, 8);
  EXPECT_DEATH(table.CosSin(-1), "");
}

}  // namespace
}  // namespace winnow
