#include "eval/sample_scores.h"

#include <cmath>
#include <vector>

#include "base/check.h"
#include "eval/bootstrap.h"

namespace winnow {
namespace {

double Mean(std::span<const double> values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / double(values.size());
}

}  // namespace

SampleSummary SummariseSamples(std::span<const double> scores, std::span<const double> full_scores, uint64_t seed) {
  WINNOW_CHECK(!scores.empty() && scores.size() == full_scores.size());
  SampleSummary summary;
  summary.samples = int64_t(scores.size());
  const double mean = Mean(scores);
  summary.score = 100 * mean;
  summary.full_score = 100 * Mean(full_scores);
  double squares = 0;
  std::vector<PairedDocument> pairs;
  for (size_t i = 0; i < scores.size(); ++i) {
    squares += (scores[i] - mean) * (scores[i] - mean);
    pairs.push_back({.difference_sum = 100 * (scores[i] - full_scores[i]), .positions = 1});
  }
  const double n = double(scores.size());
  if (n > 1) summary.standard_error = 100 * std::sqrt(squares / (n - 1) / n);
  if (summary.full_score > 0) summary.retained = summary.score / summary.full_score;
  summary.ci95 = BootstrapInterval95(pairs, seed);
  return summary;
}

}  // namespace winnow
