// SnapKV: Li et al., "SnapKV: LLM Knows What You are Looking for Before Generation" (arXiv 2404.14469). The newest
// tokens (the recent window, which always stays) vote: a slot's score is the attention it receives from their queries,
// softmax over all keys, average-pooled over 5 neighbouring slots so that what is kept comes in runs. With grouped
// queries the votes of the group's query heads are added. Two policies:
//   snapkv-prefill  the paper's: evicts once, after the prompt;
//   snapkv          evicts whenever budget + interval is reached, also while the prompt is read, so that the cache
//   stays
//                   bounded.
#include <algorithm>

#include "base/check.h"
#include "policies/builtin_policies.h"
#include "policies/snapkv_score.h"

namespace winnow {
namespace {

constexpr int64_t kPoolReach = 2;  // slots to each side: a kernel of 5

class SnapKvPolicy : public EvictionPolicy {
 public:
  explicit SnapKvPolicy(EvictionTiming timing) : timing_(timing) {}

  std::string_view name() const override {
    return timing_ == EvictionTiming::kAfterPrefill ? "snapkv-prefill" : "snapkv";
  }
  EvictionTiming timing() const override { return timing_; }
  Observations observations() const override { return {.mass = ObservedMass::kWindow}; }

  void Score(const HeadView& head, std::span<float> scores) const override { ScoreBySnapKv(head, scores); }

 private:
  const EvictionTiming timing_;
};

}  // namespace

// Sums instead of means, since their order is the same; integers, so that no rounding depends on how they are added.
// Neighbours beyond the ends of the prefix (all but the window) count as 0.
void ScoreBySnapKv(const HeadView& head, std::span<float> scores) {
  WINNOW_CHECK(scores.size() == head.mass.size());
  const int64_t prefix = head.recent_begin;
  std::fill(scores.begin(), scores.end(), 0.0f);
  for (int64_t slot = 0; slot < prefix; ++slot) {
    int64_t sum = 0;
    for (int64_t i = std::max<int64_t>(0, slot - kPoolReach); i <= std::min(prefix - 1, slot + kPoolReach); ++i) {
      sum += head.mass[size_t(i)];
    }
    scores[size_t(slot)] = float(sum);
  }
}

std::unique_ptr<EvictionPolicy> MakeSnapKvPolicy() {
  return std::make_unique<SnapKvPolicy>(EvictionTiming::kChunked);
}

std::unique_ptr<EvictionPolicy> MakeSnapKvPrefillPolicy() {
  return std::make_unique<SnapKvPolicy>(EvictionTiming::kAfterPrefill);
}

}  // namespace winnow
