// Cosines and sines of rotary position embedding (RoFormer, arXiv 2104.09864), its frequencies stretched as the model
// says (RopeScaling). Made on the host with the functions of base/exact_math.h, so that their bits depend on the
// model's numbers and the position alone. Made anew for each row of a step: a table of all positions so far would grow
// by 256 bytes a token at heads of 64, for 32 sines that nobody notices. Engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model_config.h"

namespace winnow {

class RotaryTable {
 public:
  // head_dim even; without scaling, the frequency of pair i is theta^(-2 i / head_dim).
  RotaryTable(double theta, int64_t head_dim, const RopeScaling& scaling = {});

  // head_dim/2 cosines, then head_dim/2 sines, of a position >= 0, times the attention factor. Valid until the next
  // call.
  std::span<const float> CosSin(int64_t position);

  // [head_dim / 2], radians per position, scaled. Turning a key or query by them, on or back, is a rotation: it leaves
  // the attention factor that is in it as it is.
  std::span<const double> frequencies() const { return frequencies_; }

 private:
  std::vector<double> frequencies_;  // [head_dim / 2], radians per position
  double attention_factor_;
  std::vector<float> row_;  // [head_dim]
};

}  // namespace winnow
