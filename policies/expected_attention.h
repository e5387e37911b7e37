// Expected Attention with its settings in the open, for the registry and for tests that hold it to other settings. Any
// thread.
#pragma once

#include <cstdint>
#include <memory>

#include "policies/eviction_policy.h"

namespace winnow {

struct ExpectedAttentionSettings {
  EvictionTiming timing = EvictionTiming::kChunked;
  int64_t window_tokens = 256;  // whose queries the statistics of kChunked are of; kAfterPrefill takes all
  double epsilon = 0.01;        // added to the expected attention before it is weighted by the value's length
};

std::unique_ptr<EvictionPolicy> MakeExpectedAttention(const ExpectedAttentionSettings& settings);

}  // namespace winnow
