#include "eval/bootstrap.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/philox.h"

namespace winnow {
namespace {

constexpr uint32_t kResamplings = 10000;

}  // namespace

std::pair<double, double> BootstrapInterval95(std::span<const PairedDocument> documents, uint64_t seed) {
  WINNOW_CHECK(!documents.empty());
  std::vector<double> means;
  means.reserve(kResamplings);
  for (uint32_t resampling = 0; resampling < kResamplings; ++resampling) {
    double sum = 0;
    int64_t positions = 0;
    for (uint32_t i = 0; i < documents.size(); ++i) {
      const PhiloxBlock block = Philox(seed, {uint32_t(RandomPurpose::kBootstrap), resampling, i, 0});
      // High half of a 32 x 32 bit product: uniform over the documents to 2^-32.
      const PairedDocument& chosen = documents[size_t(uint64_t(block[0]) * documents.size() >> 32)];
      sum += chosen.difference_sum;
      positions += chosen.positions;
    }
    WINNOW_CHECK(positions > 0);
    means.push_back(sum / double(positions));
  }
  std::sort(means.begin(), means.end());
  return {means[kResamplings * 25 / 1000], means[kResamplings * 975 / 1000 - 1]};
}

}  // namespace winnow
