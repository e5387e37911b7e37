// Key norm: Devoto et al., "A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression" (arXiv 2406.11430).
// Keys of small norm tend to receive much attention: a slot's score is minus the L2 norm of its key (which rotation
// does not change). No attention is looked at.
#include <cmath>

#include "base/check.h"
#include "policies/builtin_policies.h"
#include "policies/sum_of_squares.h"

namespace winnow {
namespace {

class KnormPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "knorm"; }
  // Norms of different heads have different sizes: adding them would be another method.
  bool SupportsScope(EvictionScope scope) const override { return scope == EvictionScope::kHead; }
  Observations observations() const override { return {.keys = true}; }

  void Score(const HeadView& head, std::span<float> scores) const override {
    const size_t head_dim = size_t(head.head_dim);
    WINNOW_CHECK(head.keys.size() == scores.size() * head_dim);
    for (size_t slot = 0; slot < scores.size(); ++slot) {
      // A key that is not finite ends its request; until then it goes first.
      const float norm = float(std::sqrt(SumOfSquares(head.keys.subspan(slot * head_dim, head_dim))));
      scores[slot] = std::isfinite(norm) ? -norm : -HUGE_VALF;
    }
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeKnormPolicy() {
  return std::make_unique<KnormPolicy>();
}

}  // namespace winnow
