// KVzip (arXiv 2505.23416): a slot is worth as much as the model attends to it while it repeats the whole context; one
// threshold for all heads of all layers, no head has a floor. KVzip+ (arXiv 2601.07891) weighs that attention by what
// the slot's value adds to the residual stream, relative to the query's input.
#include <algorithm>

#include "policies/builtin_policies.h"

namespace winnow {
namespace {

class KvZipPolicy : public EvictionPolicy {
 public:
  KvZipPolicy(std::string_view name, ObservedReplay replay) : name_(name), replay_(replay) {}

  std::string_view name() const override { return name_; }
  bool SupportsScope(EvictionScope scope) const override { return scope == EvictionScope::kHead; }
  EvictionTiming timing() const override { return EvictionTiming::kAfterPrefill; }
  BudgetAllocation allocation() const override { return BudgetAllocation::kSequence; }
  Observations observations() const override { return {.replay = replay_}; }

  void Score(const HeadView& head, std::span<float> scores) const override {
    std::copy(head.replay.begin(), head.replay.end(), scores.begin());
  }

 private:
  const std::string_view name_;
  const ObservedReplay replay_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeKvZipPolicy() {
  return std::make_unique<KvZipPolicy>("kvzip", ObservedReplay::kAttention);
}

std::unique_ptr<EvictionPolicy> MakeKvZipPlusPolicy() {
  return std::make_unique<KvZipPolicy>("kvzip-plus", ObservedReplay::kUpdate);
}

}  // namespace winnow
