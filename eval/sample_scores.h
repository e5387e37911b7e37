// Means over samples, and how sure they are. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace winnow {

// Scores of the same samples under a policy and with a full cache, each 0 to 1.
struct SampleSummary {
  int64_t samples = 0;
  double score = 0, full_score = 0;  // means, times 100
  double standard_error = 0;         // of the score over samples; 0 for one sample
  std::optional<double> retained;    // score / full_score; none if the full cache scored 0
  // 95 % of score - full_score: paired bootstrap over samples.
  std::pair<double, double> ci95;
};

// At least one sample, as many of the full cache.
SampleSummary SummariseSamples(std::span<const double> scores, std::span<const double> full_scores, uint64_t seed);

}  // namespace winnow
