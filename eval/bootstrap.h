// Paired bootstrap over documents: how sure a mean difference is, given that texts differ more than positions do
// (Efron 1979, percentile interval). Counter-based random numbers, so the interval is the same everywhere. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace winnow {

// One document's sum of differences, and over how many positions.
struct PairedDocument {
  double difference_sum = 0;
  int64_t positions = 0;
};

// The 95 % interval of (sum of differences) / (sum of positions) over 10,000 resamplings of the documents. At least one
// document with positions; with one document both ends are its mean.
std::pair<double, double> BootstrapInterval95(std::span<const PairedDocument> documents, uint64_t seed);

}  // namespace winnow
