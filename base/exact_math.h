// exp, log, sine and cosine made of + - * / and fma alone, so that their bits do not depend on a C library, compiler or
// vector width. Float ExactExp is the scalar form of the 16-lane one in compute/cpu; the double ones serve rotary
// tables, sampling and log-probabilities.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace winnow {

// exp(x) in float: 0 for x <= -87 (and for -inf), relative error about 2e-7 up to x = 88; above, exp(88). NaN gives 0.
float ExactExp(float x);

// exp(x), relative error below 1e-15 for |x| <= 700; x outside is clamped to that range.
double ExactExp(double x);

// The same of every value, in place, several at a time; NaN gives NaN.
void ExactExps(std::span<double> values);

// Natural logarithm of a positive, normal, finite x; absolute error below 1e-15 * max(1, |log x|).
double ExactLog(double x);

// {sin(angle), cos(angle)}, absolute error below 1e-15 for |angle| <= 2^24.
std::pair<double, double> ExactSinCos(double angle);

// The power base^exponent of a positive base.
inline double ExactPow(double base, double exponent) {
  return ExactExp(exponent * ExactLog(base));
}

}  // namespace winnow
