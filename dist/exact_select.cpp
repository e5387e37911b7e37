#include "dist/exact_select.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace winnow {
namespace {

constexpr int kDigitBits = 8, kBins = 1 << kDigitBits, kScoreDigits = 32 / kDigitBits;

int64_t WeightOf(const SelectProblem& problem, size_t i) {
  return problem.is_weighted ? problem.weights[i] : 1;
}

// State of one problem between digit passes, the same on every rank. The threshold's digits are found from the highest
// on; the others are 0.
struct Search {
  SelectKey threshold;
  int64_t need = 0;                  // weight still to be found among the keys with the digits found
  bool decided = false;              // the keys that share the digits found are all kept
  std::vector<uint32_t> candidates;  // this rank's keys that share the digits found, from the second digit on
};

// Digit `index` counts from the highest of the score; the order's digits follow.
int DigitOf(const SelectKey& key, int index, int order_bits) {
  if (index < kScoreDigits) return int(key.score >> (32 - kDigitBits * (index + 1)) & (kBins - 1));
  return int(key.order >> (order_bits - kDigitBits * (index - kScoreDigits + 1)) & (kBins - 1));
}

void SetDigit(SelectKey& key, int index, int order_bits, int digit) {
  if (index < kScoreDigits) {
    key.score |= uint32_t(digit) << (32 - kDigitBits * (index + 1));
  } else {
    key.order |= uint64_t(digit) << (order_bits - kDigitBits * (index - kScoreDigits + 1));
  }
}

// Counts the candidates (all of them at the first digit) by digit `index`.
void AddHistogram(const SelectProblem& problem, const Search& search, int index, int64_t* bins) {
  const auto add = [&](size_t i) { bins[DigitOf(problem.keys[i], index, problem.order_bits)] += WeightOf(problem, i); };
  if (index == 0) {
    for (size_t i = 0; i < problem.keys.size(); ++i) add(i);
  } else {
    for (uint32_t i : search.candidates) add(i);
  }
}

// Leaves the candidates that have the threshold's digit `index`.
void Narrow(const SelectProblem& problem, int index, Search* search) {
  const int digit = DigitOf(search->threshold, index, problem.order_bits);
  const auto has_digit = [&](size_t i) { return DigitOf(problem.keys[i], index, problem.order_bits) == digit; };
  if (index == 0) {
    for (size_t i = 0; i < problem.keys.size(); ++i) {
      if (has_digit(i)) search->candidates.push_back(uint32_t(i));
    }
  } else {
    std::erase_if(search->candidates, [&](uint32_t i) { return !has_digit(i); });
  }
}

// Takes the highest digit at which the weights above and at it reach the need.
void TakeDigit(const SelectProblem& problem, const int64_t* bins, int index, Search* search) {
  if (index == 0) {
    int64_t total = 0;
    for (int d = 0; d < kBins; ++d) total += bins[d];
    if (total <= search->need) {
      search->decided = true;  // with threshold 0: everything
      return;
    }
  }
  int digit = kBins - 1;
  while (digit > 0 && bins[digit] < search->need) search->need -= bins[digit--];
  SetDigit(search->threshold, index, problem.order_bits, digit);
  // Weighted keys go on to the last digit: below the one that reaches the target there may be some that weigh nothing.
  search->decided = !problem.is_weighted && bins[digit] == search->need;
}

}  // namespace

uint32_t OrderedKey(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);  // -0 becomes +0
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

std::vector<SelectKey> ExactSelect(Communicator& communicator, std::span<const SelectProblem> problems) {
  std::vector<Search> searches(problems.size());
  int max_digits = 0;
  for (size_t p = 0; p < problems.size(); ++p) {
    const int order_bits = problems[p].order_bits;
    WINNOW_CHECK(order_bits >= 0 && order_bits <= 64 && order_bits % kDigitBits == 0);
    WINNOW_CHECK(!problems[p].is_weighted || problems[p].weights.size() == problems[p].keys.size());
    searches[p].need = problems[p].target;
    max_digits = std::max(max_digits, kScoreDigits + order_bits / kDigitBits);
  }
  std::vector<int64_t> bins(problems.size() * kBins);
  for (int index = 0; index < max_digits; ++index) {
    std::fill(bins.begin(), bins.end(), 0);
    for (size_t p = 0; p < problems.size(); ++p) {
      if (!searches[p].decided) AddHistogram(problems[p], searches[p], index, &bins[p * kBins]);
    }
    communicator.AllReduce(std::span<int64_t>(bins), ReduceOp::kSum);
    for (size_t p = 0; p < problems.size(); ++p) {
      if (searches[p].decided) continue;
      TakeDigit(problems[p], &bins[p * kBins], index, &searches[p]);
      Narrow(problems[p], index, &searches[p]);
      // Keys are distinct, so that after the last digit one key is left, which reaches the target.
      searches[p].decided |= index + 1 == kScoreDigits + problems[p].order_bits / kDigitBits;
    }
    // The same on all ranks, so all of them leave together.
    if (std::all_of(searches.begin(), searches.end(), [](const Search& search) { return search.decided; })) break;
  }
  std::vector<SelectKey> thresholds;
  for (const Search& search : searches) thresholds.push_back(search.threshold);
  return thresholds;
}

}  // namespace winnow
