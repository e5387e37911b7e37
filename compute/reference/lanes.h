// Sums over 16 logical lanes, the one order in which a float sum may be split (contract). Pure functions.
#pragma once

namespace winnow {

constexpr int kLanes = 16;

// The tree 8, 4, 2, 1: v[i] += v[i + 8] for i < 8, then 4, 2, 1. `v` is overwritten.
inline float SumLanes(float* v) {
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) v[i] += v[i + width];
  }
  return v[0];
}

}  // namespace winnow
