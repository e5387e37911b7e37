// SnapKV's score at every eviction: Li et al., "SnapKV: LLM Knows What You are Looking for Before Generation" (arXiv
// 2404.14469). The newest tokens (the recent window, which always stays) vote: a slot's score is the attention it
// receives from their queries, softmax over all keys, average-pooled over 5 neighbouring slots so that what is kept
// comes in runs. With grouped queries the votes of the group's query heads are added. The paper evicts once, after the
// prompt; this form does so whenever budget + interval is reached, also while the prompt is read, so the cache stays
// bounded.
#include <algorithm>

#include "base/check.h"
#include "policies/builtin_policies.h"

namespace winnow {
namespace {

constexpr int64_t kPoolReach = 2;  // slots to each side: a kernel of 5

class SnapKvPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "snapkv"; }
  Observation observation() const override { return Observation::kWindowMass; }

  // Sums instead of means, since their order is the same; integers, so that no rounding depends on how they are added.
  // Neighbours beyond the ends of the prefix (all but the window) count as 0.
  void Score(const HeadView& head, std::span<float> scores) const override {
    WINNOW_CHECK(scores.size() == head.mass.size());
    const int64_t length = int64_t(scores.size()), prefix = std::max<int64_t>(0, length - head.recent_tokens);
    std::fill(scores.begin(), scores.end(), 0.0f);
    for (int64_t slot = 0; slot < prefix; ++slot) {
      int64_t sum = 0;
      for (int64_t i = std::max<int64_t>(0, slot - kPoolReach); i <= std::min(prefix - 1, slot + kPoolReach); ++i) {
        sum += head.mass[size_t(i)];
      }
      scores[size_t(slot)] = float(sum);
    }
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeSnapKvPolicy() {
  return std::make_unique<SnapKvPolicy>();
}

}  // namespace winnow
