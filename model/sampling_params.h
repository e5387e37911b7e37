// How a token is drawn from a distribution. Plain data, any thread.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace winnow {

// Filters apply in this order, to probabilities after the temperature: top_k, top_p, min_p.
struct SamplingParams {
  float temperature = 0.0f;  // 0: greedy (largest logit, ties to the lower id)
  int32_t top_k = 0;         // 0: no limit
  float top_p = 1.0f;        // smallest set of the most probable tokens whose mass reaches top_p
  float min_p = 0.0f;        // drop tokens below min_p times the highest probability
  uint64_t seed = 0;
};

// InvalidArgument naming the parameter, its range and its value.
Status CheckSamplingParams(const SamplingParams& params);

}  // namespace winnow
