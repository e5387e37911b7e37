// Golden eviction: Peng et al., "ForesightKV: Optimizing KV Cache Eviction for Reasoning Models by Learning Long-Term
// Contribution" (arXiv 2602.03203), section on supervised training. An oracle, not a method: on a recorded text a
// slot's score is the most attention that any block of the queries to come pays to it with a full cache, mean over the
// block's queries and the query heads of the group. It is what the others can hope for, and where learned policies get
// their labels from. Blocks are cut where this request's evictions fall. The paper protects the newest `interval`
// tokens and no sinks (--kv-recent-tokens L --kv-sink-tokens 0); here both are as asked, as for every policy that it is
// compared with. An eviction after which nothing comes scores everything 0, so that the newest stay: the paper has none
// there.
#include <algorithm>

#include "base/check.h"
#include "policies/builtin_policies.h"

namespace winnow {
namespace {

class GoldenPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "golden"; }
  // Every head has a future of its own.
  bool SupportsScope(EvictionScope scope) const override { return scope == EvictionScope::kHead; }
  Observations observations() const override { return {.future = true}; }

  void Score(const HeadView& head, std::span<float> scores) const override {
    WINNOW_CHECK(scores.size() == head.future.size());
    std::copy(head.future.begin(), head.future.end(), scores.begin());
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeGoldenPolicy() {
  return std::make_unique<GoldenPolicy>();
}

}  // namespace winnow
