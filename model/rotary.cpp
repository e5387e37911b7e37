#include "model/rotary.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/exact_math.h"

namespace winnow {
namespace {

constexpr double kTwoPi = 6.283185307179586;

// Llama 3.1: waves that turn less than low_freq_factor times within the original context are stretched by the factor,
// those that turn more than high_freq_factor times are kept, those between go from one to the other.
void ScaleLlama3(const RopeScaling& scaling, std::vector<double>* frequencies) {
  for (double& frequency : *frequencies) {
    const double turns = double(scaling.original_context) * frequency / kTwoPi;
    const double kept =
        std::clamp((turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor), 0.0, 1.0);
    frequency = (1 - kept) * (frequency / scaling.factor) + kept * frequency;
  }
}

// YaRN (arXiv 2309.00071, section 3.2): the same in the index of the pair, between the pairs that turn beta_fast and
// beta_slow times, rounded outwards to whole pairs.
void ScaleYarn(double theta, const RopeScaling& scaling, std::vector<double>* frequencies) {
  WINNOW_CHECK(theta > 1);
  const double dims = 2 * double(frequencies->size());
  const auto pair_of_turns = [&](double turns) {
    return dims * ExactLog(double(scaling.original_context) / (turns * kTwoPi)) / (2 * ExactLog(theta));
  };
  const double first = std::max(std::floor(pair_of_turns(scaling.beta_fast)), 0.0);
  double last = std::min(std::ceil(pair_of_turns(scaling.beta_slow)), dims - 1);
  if (last == first) last += 0.001;  // as transformers does
  for (size_t i = 0; i < frequencies->size(); ++i) {
    double& frequency = (*frequencies)[i];
    const double stretched = std::clamp((double(i) - first) / (last - first), 0.0, 1.0);
    frequency = frequency / scaling.factor * stretched + frequency * (1 - stretched);
  }
}

}  // namespace

RotaryTable::RotaryTable(double theta, int64_t head_dim, const RopeScaling& scaling)
    : attention_factor_(scaling.type == RopeScaling::Type::kYarn ? scaling.attention_factor : 1) {
  WINNOW_CHECK(theta > 0 && head_dim > 0 && head_dim % 2 == 0);
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    frequencies_.push_back(ExactPow(theta, -2.0 * double(i) / double(head_dim)));
  }
  switch (scaling.type) {
    case RopeScaling::Type::kNone:
      break;
    case RopeScaling::Type::kLinear:
      for (double& frequency : frequencies_) frequency /= scaling.factor;
      break;
    case RopeScaling::Type::kLlama3:
      ScaleLlama3(scaling, &frequencies_);
      break;
    case RopeScaling::Type::kYarn:
      ScaleYarn(theta, scaling, &frequencies_);
      break;
    case RopeScaling::Type::kFactors:
      WINNOW_CHECK(scaling.factors.size() == frequencies_.size());
      for (size_t i = 0; i < frequencies_.size(); ++i) frequencies_[i] /= double(scaling.factors[i]);
      break;
  }
  row_.resize(size_t(head_dim));
}

std::span<const float> RotaryTable::CosSin(int64_t position) {
  WINNOW_CHECK(position >= 0);
  const size_t pairs = frequencies_.size();
  for (size_t i = 0; i < pairs; ++i) {
    const auto [sine, cosine] = ExactSinCos(double(position) * frequencies_[i]);
    row_[i] = float(cosine * attention_factor_);
    row_[pairs + i] = float(sine * attention_factor_);
  }
  return row_;
}

}  // namespace winnow
