// TOVA: Oren et al., "Transformers are Multi-State RNNs" (arXiv 2401.06104). A slot's score is the attention that the
// newest token pays it, all query heads of a layer together: one kept set a layer. The paper drops one token after
// every step and may drop the newest; here, as for every policy, evictions come every interval, and the sinks and
// recent tokens that the user asks for stay (0 of each is the paper's).
#include "base/check.h"
#include "policies/builtin_policies.h"

namespace winnow {
namespace {

class TovaPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "tova"; }
  EvictionScope scope() const override { return EvictionScope::kLayer; }
  Observations observations() const override { return {.mass = ObservedMass::kWindow, .window_tokens = 1}; }

  void Score(const HeadView& head, std::span<float> scores) const override {
    WINNOW_CHECK(scores.size() == head.mass.size());
    for (size_t slot = 0; slot < scores.size(); ++slot) scores[slot] = float(head.mass[slot]);
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeTovaPolicy() {
  return std::make_unique<TovaPolicy>();
}

}  // namespace winnow
