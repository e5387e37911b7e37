#include "model/rotary.h"

#include "base/check.h"
#include "base/exact_math.h"

namespace winnow {

RotaryTable::RotaryTable(double theta, int64_t head_dim) {
  WINNOW_CHECK(theta > 0 && head_dim > 0 && head_dim % 2 == 0);
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    frequencies_.push_back(ExactPow(theta, -2.0 * double(i) / double(head_dim)));
  }
  row_.resize(size_t(head_dim));
}

std::span<const float> RotaryTable::CosSin(int64_t position) {
  WINNOW_CHECK(position >= 0);
  const size_t pairs = frequencies_.size();
  for (size_t i = 0; i < pairs; ++i) {
    const auto [sine, cosine] = ExactSinCos(double(position) * frequencies_[i]);
    row_[i] = float(cosine);
    row_[pairs + i] = float(sine);
  }
  return row_;
}

}  // namespace winnow
