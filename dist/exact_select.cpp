#include "dist/exact_select.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace winnow {
namespace {

constexpr int kDigitBits = 8, kBins = 1 << kDigitBits;

int64_t WeightOf(const SelectProblem& problem, size_t i) {
  return problem.weights.empty() ? 1 : problem.weights[i];
}

// State of one problem between digit passes, the same on every rank.
struct Search {
  uint64_t prefix = 0;     // digits found so far
  int64_t need = 0;        // weight still to be found among the keys with this prefix
  bool keep_all = false;   // the total does not exceed the target
  int64_t tie_weight = 0;  // of all keys equal to the threshold, over all ranks
};

void AddHistogram(const SelectProblem& problem, const Search& search, int shift, int64_t* bins) {
  for (size_t i = 0; i < problem.keys.size(); ++i) {
    const uint64_t key = problem.keys[i];
    if (key >> (shift + kDigitBits) == search.prefix) bins[key >> shift & (kBins - 1)] += WeightOf(problem, i);
  }
}

// Takes the highest digit at which the weights above and at it reach the need.
void TakeDigit(const int64_t* bins, bool first, Search* search) {
  if (first) {
    int64_t total = 0;
    for (int d = 0; d < kBins; ++d) total += bins[d];
    search->keep_all = total <= search->need;
  }
  int digit = kBins - 1;
  while (digit > 0 && bins[digit] < search->need) search->need -= bins[digit--];
  search->prefix = search->prefix << kDigitBits | uint64_t(digit);
  search->tie_weight = bins[digit];
}

}  // namespace

uint32_t OrderedKey(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);  // -0 becomes +0
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

std::vector<SelectResult> ExactSelect(Communicator& communicator, std::span<const SelectProblem> problems) {
  std::vector<Search> searches(problems.size());
  for (size_t p = 0; p < problems.size(); ++p) searches[p].need = problems[p].target;
  std::vector<int64_t> bins(problems.size() * kBins);
  for (int shift = 24; shift >= 0; shift -= kDigitBits) {
    std::fill(bins.begin(), bins.end(), 0);
    for (size_t p = 0; p < problems.size(); ++p) AddHistogram(problems[p], searches[p], shift, &bins[p * kBins]);
    communicator.AllReduce(std::span<int64_t>(bins), ReduceOp::kSum);
    for (size_t p = 0; p < problems.size(); ++p) TakeDigit(&bins[p * kBins], shift == 24, &searches[p]);
  }

  // Ties: every rank learns how many entries equal to the threshold stand before its own.
  std::vector<int64_t> mine(problems.size(), 0);
  for (size_t p = 0; p < problems.size(); ++p) {
    for (uint32_t key : problems[p].keys) mine[p] += key == searches[p].prefix;
  }
  const auto bytes = communicator.AllGather(std::as_bytes(std::span(mine)));
  std::vector<int64_t> counts(bytes.size() / sizeof(int64_t));
  std::memcpy(counts.data(), bytes.data(), bytes.size());

  std::vector<SelectResult> results(problems.size());
  for (size_t p = 0; p < problems.size(); ++p) {
    const Search& search = searches[p];
    if (search.keep_all) {
      results[p] = {0, int64_t(problems[p].keys.size())};
      continue;
    }
    int64_t ties = 0, before = 0;
    for (int r = 0; r < communicator.size(); ++r) {
      if (r == communicator.rank()) before = ties;
      ties += counts[size_t(r) * problems.size() + p];
    }
    const int64_t weight = ties > 0 ? search.tie_weight / ties : 0;  // equal keys have equal weights
    const int64_t keep = weight > 0 ? (search.need + weight - 1) / weight : 0;
    results[p] = {uint32_t(search.prefix), std::max<int64_t>(0, keep - before)};
  }
  return results;
}

}  // namespace winnow
