// Heavy hitters: Zhang et al., "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large Language Models"
// (arXiv 2306.14048). A slot's score is the attention it has received from every query since it was written; half of
// the budget goes to the newest tokens, the rest to the highest scores. Evicted tokens lose their score. With grouped
// queries the score is the sum over the query heads of the group (the paper has one query head per KV head). The paper
// evicts after every token; here, as for every policy, whenever budget + interval is reached.
#include <algorithm>

#include "base/check.h"
#include "policies/builtin_policies.h"

namespace winnow {
namespace {

class H2oPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "h2o"; }
  Observations observations() const override { return {.mass = ObservedMass::kCumulative}; }
  int64_t RecentTokens(int64_t budget, int64_t asked) const override { return std::max(asked, budget / 2); }

  void Score(const HeadView& head, std::span<float> scores) const override {
    WINNOW_CHECK(scores.size() == head.mass.size());
    for (size_t slot = 0; slot < scores.size(); ++slot) scores[slot] = float(head.mass[slot]);
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeH2oPolicy() {
  return std::make_unique<H2oPolicy>();
}

}  // namespace winnow
