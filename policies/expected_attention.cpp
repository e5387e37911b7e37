// Expected Attention: Devoto et al., "Expected Attention: KV Cache Compression by Estimating Attention from Future
// Queries Distribution" (arXiv 2510.00636). If queries to come are like those that were, with mean mu and covariance S
// before rotation, and R is the mean rotation of the next 512 positions, then the expected weight of key k is about
// exp(z), z = (R mu).k / sqrt(d) + k' (R S R') k / (2 d). Scores: softmax of z, mean over the query heads of the group,
// plus epsilon, times the length of the value. Neither statistics nor the softmax's sum see positions 0 to 3, where
// sinks are. Two policies:
//   expected-attention-prefill  the paper's: evicts once, after the prompt, with the statistics of all its queries;
//   expected-attention          evicts whenever budget + interval is reached, with those of the newest 256 tokens (the
//                               paper's buffer while decoding), whether or not an eviction lies between them.
// Heads have equal budgets; the paper's competition (Ada-KV, with a floor of 0.2) is --kv-allocation layer.
#include "policies/expected_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/exact_math.h"
#include "policies/builtin_policies.h"
#include "policies/query_statistics.h"
#include "policies/sum_of_squares.h"

namespace winnow {
namespace {

constexpr int64_t kSinks = 4;
constexpr int kFutureDoublings = 9;  // 2^9 = 512 positions
// exp of more than this above the largest logit of the others would leave the range of scores; only sinks can be there.
constexpr double kMostAbove = 60;

// Keys turned back by the mean rotation of the 512 positions from `next` on, [slots][padded head_dim]: R' k, with which
// unrotated statistics may be used as they are.
std::vector<float> TurnedBack(const HeadView& head, int64_t next) {
  const size_t pairs = head.rotary_frequencies.size(), dims = size_t(PaddedHeadDim(head.head_dim));
  std::vector<double> cosines, sines;
  for (double frequency : head.rotary_frequencies) {
    // The sum of 512 rotations in steps of one: (1 + r)(1 + r^2)(1 + r^4)...
    const auto [first_sine, first_cosine] = ExactSinCos(double(next) * frequency);
    double c = first_cosine, s = first_sine;
    for (int doubling = 0; doubling < kFutureDoublings; ++doubling) {
      const auto [sine, cosine] = ExactSinCos(double(int64_t(1) << doubling) * frequency);
      const double turned_c = (c + (c * cosine - s * sine)) / 2, turned_s = (s + (s * cosine + c * sine)) / 2;
      c = turned_c, s = turned_s;
    }
    cosines.push_back(c);
    sines.push_back(s);
  }
  const size_t slots = head.positions.size();
  std::vector<float> keys(slots * dims, 0.0f);
  for (size_t slot = 0; slot < slots; ++slot) {
    const float* from = head.keys.data() + slot * 2 * pairs;
    float* to = keys.data() + slot * dims;
    for (size_t i = 0; i < pairs; ++i) {
      const double a = double(from[i]), b = double(from[i + pairs]);
      to[i] = float(a * cosines[i] + b * sines[i]);
      to[i + pairs] = float(b * cosines[i] - a * sines[i]);
    }
  }
  return keys;
}

class ExpectedAttentionPolicy : public EvictionPolicy {
 public:
  explicit ExpectedAttentionPolicy(const ExpectedAttentionSettings& settings) : settings_(settings) {}

  std::string_view name() const override { return is_chunked() ? "expected-attention" : "expected-attention-prefill"; }
  EvictionTiming timing() const override { return settings_.timing; }
  bool SupportsScope(EvictionScope scope) const override { return scope == EvictionScope::kHead; }
  double FloorShare() const override { return 0.2; }
  Observations observations() const override {
    return {.window_tokens = is_chunked() ? settings_.window_tokens : 0,
            .keys = true,
            .values = true,
            .queries = is_chunked(),
            .window_spans_evictions = is_chunked(),
            .query_moments = !is_chunked(),
            .moments_begin = kSinks};
  }

  void Score(const HeadView& head, std::span<float> scores) const override {
    const size_t slots = scores.size();
    WINNOW_CHECK(head.positions.size() == slots && int64_t(head.rotary_frequencies.size()) * 2 == head.head_dim);
    WINNOW_CHECK(head.keys.size() == slots * size_t(head.head_dim) && head.values.size() == head.keys.size());
    WINNOW_CHECK(head.queries.size() == head.query_positions.size() * size_t(head.group * head.head_dim));
    if (slots == 0) return;
    const SlotTiles keys(TurnedBack(head, int64_t(head.positions.back()) + 1), PaddedHeadDim(head.head_dim));
    const QueryStatistics statistics = StatisticsOf(head, kSinks);
    std::vector<double> weights(slots, 0.0), exps(slots);
    for (int64_t query = 0; query < head.group; ++query) {
      const double scale = 1 / (ExpOf(head, ExpectedLogits(statistics, query, keys), &exps) * double(head.group));
      for (size_t slot = 0; slot < slots; ++slot) weights[slot] += exps[slot] * scale;
    }
    for (size_t slot = 0; slot < slots; ++slot) {
      const auto value = head.values.subspan(slot * size_t(head.head_dim), size_t(head.head_dim));
      const double score = (weights[slot] + settings_.epsilon) * std::sqrt(SumOfSquares(value));
      // Keys, values or queries that are not finite end their request anyway.
      scores[slot] = std::isfinite(float(score)) ? float(score) : 0.0f;
    }
  }

 private:
  bool is_chunked() const { return settings_.timing == EvictionTiming::kChunked; }

  // exp of the logits less the largest, and the sum, both over slots behind the sinks; over all if there are no others.
  static double ExpOf(const HeadView& head, std::span<const float> logits, std::vector<double>* exps) {
    auto first = size_t(std::lower_bound(head.positions.begin(), head.positions.end(), int32_t(kSinks)) -
                        head.positions.begin());
    if (first == exps->size()) first = 0;
    const double largest =
        double(*std::max_element(logits.begin() + int64_t(first), logits.begin() + int64_t(exps->size())));
    double sum = 0;
    for (size_t slot = 0; slot < exps->size(); ++slot) {
      const double above = double(logits[slot]) - largest;
      (*exps)[slot] = above <= kMostAbove ? above : above > kMostAbove ? kMostAbove : -HUGE_VAL;  // NaN: the least
    }
    ExactExps(*exps);
    for (size_t slot = first; slot < exps->size(); ++slot) sum += (*exps)[slot];
    return sum;
  }

  const ExpectedAttentionSettings settings_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeExpectedAttention(const ExpectedAttentionSettings& settings) {
  return std::make_unique<ExpectedAttentionPolicy>(settings);
}

std::unique_ptr<EvictionPolicy> MakeExpectedAttentionPolicy() {
  return MakeExpectedAttention({});
}

std::unique_ptr<EvictionPolicy> MakeExpectedAttentionPrefillPolicy() {
  return MakeExpectedAttention({.timing = EvictionTiming::kAfterPrefill});
}

}  // namespace winnow
