// PyramidKV: Cai et al., "PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information Funneling" (arXiv
// 2406.02069). SnapKV's scores under budgets that fall from layer to layer in equal steps, since lower layers spread
// their attention wider; the mean over layers is the budget. With f protected slots a head, b = budget - f and beta =
// 20, the last layer gets b / beta + f and the first 2 b - b / beta + f; where a head does not hold that many slots,
// the first gets all of them and the last what keeps the mean. Two policies, as for SnapKV:
//   pyramidkv-prefill  the paper's: evicts once, after the prompt;
//   pyramidkv          evicts whenever budget + interval is reached.
#include "policies/builtin_policies.h"
#include "policies/snapkv_score.h"

namespace winnow {
namespace {

constexpr int64_t kBeta = 20;

// Slots beside the protected ones in the layers 0 .. layer, in units of 1 / Denominator.
int64_t FreeUpTo(const LayerShare& share, int64_t layer) {
  const int64_t free = share.budget - share.protected_slots, room = share.slots - share.protected_slots;
  const int64_t layers = layer + 1, steps = share.num_layers - 1;
  // High = 2 b - b / beta falls to b / beta; the sum of an arithmetic series, times beta and the number of steps.
  if ((2 * kBeta - 1) * free <= room * kBeta) {
    return (2 * kBeta - 1) * free * layers * steps - (kBeta - 1) * free * layer * layers;
  }
  return (room * layers * steps - (room - free) * layer * layers) * kBeta;
}

class PyramidKvPolicy : public EvictionPolicy {
 public:
  explicit PyramidKvPolicy(EvictionTiming timing) : timing_(timing) {}

  std::string_view name() const override {
    return timing_ == EvictionTiming::kAfterPrefill ? "pyramidkv-prefill" : "pyramidkv";
  }
  EvictionTiming timing() const override { return timing_; }
  bool SupportsScope(EvictionScope scope) const override { return scope != EvictionScope::kSequence; }
  bool HasLayerBudgets() const override { return true; }
  Observations observations() const override { return {.mass = ObservedMass::kWindow}; }

  // Running sums are rounded half up, so that the layers' budgets add to the total and each is less than 1 away from
  // its exact value.
  int64_t LayerBudget(const LayerShare& share) const override {
    if (share.num_layers == 1) return share.budget;
    const int64_t denominator = kBeta * (share.num_layers - 1);
    const auto rounded = [&](int64_t sum) { return (2 * sum + denominator) / (2 * denominator); };
    const int64_t before = share.layer == 0 ? 0 : rounded(FreeUpTo(share, share.layer - 1));
    return rounded(FreeUpTo(share, share.layer)) - before + share.protected_slots;
  }

  void Score(const HeadView& head, std::span<float> scores) const override { ScoreBySnapKv(head, scores); }

 private:
  const EvictionTiming timing_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakePyramidKvPolicy() {
  return std::make_unique<PyramidKvPolicy>(EvictionTiming::kChunked);
}

std::unique_ptr<EvictionPolicy> MakePyramidKvPrefillPolicy() {
  return std::make_unique<PyramidKvPolicy>(EvictionTiming::kAfterPrefill);
}

}  // namespace winnow
