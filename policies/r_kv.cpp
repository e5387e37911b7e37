// R-KV: Cai et al., "R-KV: Redundancy-aware KV Cache Compression for Reasoning Models" (arXiv 2505.24133). What stays
// is what the newest tokens look at and what no newer key says already: score = 0.1 importance - 0.9 redundancy.
// Importance: the queries of the 8 newest tokens, scaled dot products with the rotated keys, maximum over the query
// heads of the group, softmax over the slots before the window alone, mean over the queries, maximum over 7
// neighbouring slots. Redundancy: softmax over all slots of the mean cosine with all keys, where of near-duplicates
// (cosine above 0.5) the newest is not charged. The window always stays. The authors' program also sets column 0 to 0
// for keys that have no near-duplicate, which protects the first token; that is an index by default, not in the paper,
// and not here.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/exact_math.h"
#include "policies/builtin_policies.h"
#include "policies/key_redundancy.h"
#include "policies/slot_dots.h"

namespace winnow {
namespace {

constexpr int64_t kWindow = 8;
constexpr int64_t kPoolReach = 3;  // slots to each side: a kernel of 7
constexpr double kImportanceWeight = 0.1;
constexpr float kNearDuplicate = 0.5f;

// exp(x - max x) for each x, and their sum in order.
template <class T>
double ExpOf(std::span<const T> x, std::vector<double>* exps) {
  exps->resize(x.size());
  const double largest = double(*std::max_element(x.begin(), x.end()));
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double below = double(x[i]) - largest;
    sum += (*exps)[i] = below <= 0 ? ExactExp(below) : 0.0;  // NaN has no place in it
  }
  return sum;
}

// Of the slots before the window, before pooling.
std::vector<double> Importance(const HeadView& head) {
  const int64_t dims = head.head_dim, prefix = head.window_begin;
  const int64_t num_rows = int64_t(head.queries.size()) / dims, tokens = num_rows / head.group;
  std::vector<float> rows(size_t((num_rows + kDotRows - 1) / kDotRows * kDotRows * dims), 0.0f);
  std::copy(head.queries.begin(), head.queries.end(), rows.begin());
  const SlotTiles tiles(head.keys.first(size_t(prefix * dims)), dims);
  const int64_t padded = tiles.padded_slots();
  std::vector<float> logits(rows.size() / size_t(dims) * size_t(padded));
  for (int64_t row = 0; row < num_rows; row += kDotRows) {
    DotRows(rows.data() + row * dims, tiles, 0, logits.data() + row * padded);
  }
  std::vector<double> importance(size_t(prefix), 0.0), exps;
  for (int64_t token = 0; token < tokens; ++token) {
    float* largest = logits.data() + token * head.group * padded;
    for (int64_t query = 1; query < head.group; ++query) {
      const float* other = largest + query * padded;
      for (int64_t slot = 0; slot < prefix; ++slot) largest[slot] = std::max(largest[slot], other[slot]);
    }
    const double scale = 1 / (ExpOf(std::span<const float>(largest, size_t(prefix)), &exps) * double(tokens));
    for (int64_t slot = 0; slot < prefix; ++slot) importance[size_t(slot)] += exps[size_t(slot)] * scale;
  }
  return importance;
}

class RKvPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "r-kv"; }
  // Cosines are those of one head's keys.
  bool SupportsScope(EvictionScope scope) const override { return scope == EvictionScope::kHead; }
  Observations observations() const override { return {.window_tokens = kWindow, .keys = true, .queries = true}; }
  int64_t RecentTokens(int64_t budget, int64_t asked) const override {
    (void)budget;
    return std::max(asked, kWindow);
  }

  void Score(const HeadView& head, std::span<float> scores) const override {
    WINNOW_CHECK(head.keys.size() == scores.size() * size_t(head.head_dim));
    WINNOW_CHECK(!head.queries.empty() && head.queries.size() % size_t(head.group * head.head_dim) == 0);
    std::fill(scores.begin(), scores.end(), 0.0f);
    const int64_t prefix = head.window_begin;
    if (prefix == 0) return;
    const std::vector<double> importance = Importance(head);
    const std::vector<double> cosines = MeanCosines(head.keys, head.head_dim, kNearDuplicate);
    std::vector<double> redundancy;
    const double sum = ExpOf(std::span(cosines), &redundancy);
    for (int64_t slot = 0; slot < prefix; ++slot) {
      const auto begin = importance.begin() + std::max<int64_t>(0, slot - kPoolReach);
      const double pooled = *std::max_element(begin, importance.begin() + std::min(prefix, slot + kPoolReach + 1));
      const double score = kImportanceWeight * pooled - (1 - kImportanceWeight) * (redundancy[size_t(slot)] / sum);
      // Keys or queries that are not finite end their request anyway.
      scores[size_t(slot)] = std::isfinite(score) ? float(score) : 0.0f;
    }
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeRKvPolicy() {
  return std::make_unique<RKvPolicy>();
}

}  // namespace winnow
