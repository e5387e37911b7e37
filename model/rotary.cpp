#include "model/rotary.h"

#include "base/check.h"
#include "base/exact_math.h"

namespace winnow {

RotaryTable::RotaryTable(double theta, int64_t head_dim) : head_dim_(head_dim) {
  WINNOW_CHECK(theta > 0 && head_dim > 0 && head_dim % 2 == 0);
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    frequencies_.push_back(ExactPow(theta, -2.0 * double(i) / double(head_dim)));
  }
}

std::span<const float> RotaryTable::CosSin(int64_t position) {
  WINNOW_CHECK(position >= 0);
  for (int64_t p = int64_t(table_.size()) / head_dim_; p <= position; ++p) {
    const size_t row = table_.size();
    table_.resize(row + size_t(head_dim_));
    for (size_t i = 0; i < frequencies_.size(); ++i) {
      const auto [sine, cosine] = ExactSinCos(double(p) * frequencies_[i]);
      table_[row + i] = float(cosine);
      table_[row + frequencies_.size() + i] = float(sine);
    }
  }
  return {&table_[size_t(position * head_dim_)], size_t(head_dim_)};
}

}  // namespace winnow
