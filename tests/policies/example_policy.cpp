// Mean attention: an example, from no paper. A slot's score is the attention it has received since it was written,
// divided by the number of queries that could see it, so that a slot is not ahead for being old (as under h2o).
#include "base/check.h"
#include "policies/builtin_policies.h"

namespace winnow {
namespace {

class MeanAttentionPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "mean-attention"; }
  Observations observations() const override { return {.mass = ObservedMass::kCumulative}; }

  void Score(const HeadView& head, std::span<float> scores) const override {
    WINNOW_CHECK(head.mass.size() == scores.size());
    for (size_t slot = 0; slot < scores.size(); ++slot) {
      // A token sees itself, so there is one query at least.
      const int64_t queries = head.tokens_seen - head.positions[slot];
      scores[slot] = float(head.mass[slot]) / float(queries);
    }
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeMeanAttentionPolicy() {
  return std::make_unique<MeanAttentionPolicy>();
}

}  // namespace winnow
