// Ada-SnapKV: Feng et al., "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for Efficient LLM
// Inference" (arXiv 2407.11550), around SnapKV's scores. The KV heads of a layer compete for the sum of their budgets,
// so that heads whose attention is spread keep more; a fifth of each head's own budget (the paper's safeguard, alpha =
// 0.2) goes to its own best slots first. Two policies, as for SnapKV:
//   ada-snapkv-prefill  the paper's: evicts once, after the prompt;
//   ada-snapkv          evicts whenever budget + interval is reached.
// The same allocation around any other policy: --kv-allocation layer (without the safeguard).
#include "policies/builtin_policies.h"
#include "policies/snapkv_score.h"

namespace winnow {
namespace {

class AdaSnapKvPolicy : public EvictionPolicy {
 public:
  explicit AdaSnapKvPolicy(EvictionTiming timing) : timing_(timing) {}

  std::string_view name() const override {
    return timing_ == EvictionTiming::kAfterPrefill ? "ada-snapkv-prefill" : "ada-snapkv";
  }
  EvictionTiming timing() const override { return timing_; }
  bool SupportsScope(EvictionScope scope) const override { return scope == EvictionScope::kHead; }
  BudgetAllocation allocation() const override { return BudgetAllocation::kLayer; }
  double FloorShare() const override { return 0.2; }
  Observations observations() const override { return {.mass = ObservedMass::kWindow}; }

  void Score(const HeadView& head, std::span<float> scores) const override { ScoreBySnapKv(head, scores); }

 private:
  const EvictionTiming timing_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeAdaSnapKvPolicy() {
  return std::make_unique<AdaSnapKvPolicy>(EvictionTiming::kChunked);
}

std::unique_ptr<EvictionPolicy> MakeAdaSnapKvPrefillPolicy() {
  return std::make_unique<AdaSnapKvPolicy>(EvictionTiming::kAfterPrefill);
}

}  // namespace winnow
