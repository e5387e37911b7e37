// The squared length of a vector in double, for policies that look at norms. Any thread.
#pragma once

#include <cstddef>
#include <span>

namespace winnow {

// In eight running sums, added by the tree 4, 2, 1: one sum alone would wait for itself at every step (three quarters
// of what knorm costs).
inline double SumOfSquares(std::span<const float> values) {
  constexpr size_t kLanes = 8;
  double lanes[kLanes] = {};
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += double(values[i + lane]) * double(values[i + lane]);
  }
  for (size_t i = whole; i < values.size(); ++i) lanes[i - whole] += double(values[i]) * double(values[i]);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

}  // namespace winnow
