#include "base/exact_math.h"

#include <array>
#include <bit>
#include <cmath>

namespace winnow {
namespace {

// 1 / k!
constexpr std::array<double, 15> kReciprocalFactorials = [] {
  std::array<double, 15> values{};
  double factorial = 1;  // below 2^53: exact
  for (size_t k = 0; k < values.size(); ++k) {
    if (k > 0) factorial *= double(k);
    values[k] = 1 / factorial;
  }
  return values;
}();

// Free of branches and of conversions to integers, so that compilers can take several at a time.
inline double ExpOf(double x) {
  x = x > 700.0 ? 700.0 : x < -700.0 ? -700.0 : x;
  const double n = std::nearbyint(x * 1.4426950408889634);
  const double r = std::fma(-n, 1.9082149292705877e-10, std::fma(-n, 0.6931471803691238, x));
  // Taylor series on |r| <= 0.347: 14 terms leave less than 1e-17.
  double y = kReciprocalFactorials[14];
  for (int k = 13; k >= 0; --k) y = std::fma(y, r, kReciprocalFactorials[size_t(k)]);
  // 2^n: n stands in the lowest bits of n + 1.5 * 2^52, and moves to the exponent.
  const uint64_t bits = std::bit_cast<uint64_t>(n + 0x1.8p52) + 1023;
  return y * std::bit_cast<double>(bits << 52);
}

}  // namespace

float ExactExp(float x) {
  if (!(x > -87.0f)) return 0.0f;
  x = x > 88.0f ? 88.0f : x;  // exp(88) is the largest that the power of two below can scale
  const float n = std::nearbyint(x * 1.44269504f);
  // ln 2 in two parts: the first has few bits, so that n * part is exact.
  const float r = std::fma(-n, 1.42860677e-6f, std::fma(-n, 0.693145752f, x));
  float y = 1.3888889e-3f;
  for (float coefficient : {8.3333333e-3f, 4.1666667e-2f, 1.6666667e-1f, 0.5f, 1.0f, 1.0f}) {
    y = std::fma(y, r, coefficient);
  }
  return y * std::bit_cast<float>((127 + int32_t(n)) << 23);
}

double ExactExp(double x) {
  return ExpOf(x);
}

void ExactExps(std::span<double> values) {
  for (double& value : values) value = ExpOf(value);
}

double ExactLog(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = int64_t(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffull) | (uint64_t(1023) << 52));
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716: the series ends at s^23.
  const double s = (mantissa - 1.0) / (mantissa + 1.0), square = s * s;
  double series = 0.0;
  for (int k = 23; k >= 1; k -= 2) series = std::fma(series, square, 1.0 / k);
  const double log_mantissa = 2.0 * s * series;
  return std::fma(double(exponent), 0.6931471803691238,
                  std::fma(double(exponent), 1.9082149292705877e-10, log_mantissa));
}

std::pair<double, double> ExactSinCos(double angle) {
  const double n = std::nearbyint(angle * 0.6366197723675814);  // quarter turns
  // pi/2 in two parts; fma keeps each product exact before the subtraction.
  double r = std::fma(-n, 1.5707963267948966, angle);
  r = std::fma(-n, 6.123233995736766e-17, r);
  const double square = r * r;
  double sine = 1.0, cosine = 1.0;
  // Horner form of the Taylor series on |r| <= pi/4; the last kept terms are below 1e-18.
  for (int k = 8; k >= 0; --k) {
    sine = std::fma(sine, -square / double((2 * k + 2) * (2 * k + 3)), 1.0);
    cosine = std::fma(cosine, -square / double((2 * k + 1) * (2 * k + 2)), 1.0);
  }
  sine *= r;
  switch (int64_t(n) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

}  // namespace winnow
