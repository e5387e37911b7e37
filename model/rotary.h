// Cosines and sines of rotary position embedding (RoFormer, arXiv 2104.09864) without scaling: made on the host with
// ExactSinCos, so that their bits depend on (theta, head_dim, position) alone. Made anew for each row of a step: a
// table of all positions so far would grow by 256 bytes a token at heads of 64, for 32 sines that nobody notices.
// Engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

class RotaryTable {
 public:
  // head_dim even; the frequency of pair i is theta^(-2 i / head_dim).
  RotaryTable(double theta, int64_t head_dim);

  // head_dim/2 cosines, then head_dim/2 sines, of a position >= 0. Valid until the next call.
  std::span<const float> CosSin(int64_t position);

  // [head_dim / 2], radians per position.
  std::span<const double> frequencies() const { return frequencies_; }

 private:
  std::vector<double> frequencies_;  // [head_dim / 2], radians per position
  std::vector<float> row_;           // [head_dim]
};

}  // namespace winnow
