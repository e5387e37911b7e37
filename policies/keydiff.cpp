// KeyDiff: Park et al., "KeyDiff: Key Similarity-Based KV Cache Eviction for Long-Context LLM Inference in
// Resource-Constrained Environments" (arXiv 2504.15364). Keys that point where most others point are redundant: the
// anchor is the mean of a head's normalised keys, a slot's score is minus the cosine of its key and the anchor. Keys
// are taken as they are cached (rotated); no attention is looked at.
#include <cmath>
#include <vector>

#include "base/check.h"
#include "policies/builtin_policies.h"
#include "policies/sum_of_squares.h"

namespace winnow {
namespace {

// Sums in double, in the order of dimensions and slots: one head is scored by one rank, so no other order exists.
double Dot(const float* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += double(a[i]) * b[i];
  return sum;
}

class KeyDiffPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "keydiff"; }
  // Cosines of different heads are of different anchors: adding them would be another method.
  bool SupportsScope(EvictionScope scope) const override { return scope == EvictionScope::kHead; }
  Observations observations() const override { return {.keys = true}; }

  void Score(const HeadView& head, std::span<float> scores) const override {
    WINNOW_CHECK(head.keys.size() == scores.size() * size_t(head.head_dim));
    const int64_t head_dim = head.head_dim;
    std::vector<double> anchor(size_t(head_dim), 0.0), norms(scores.size());
    for (size_t slot = 0; slot < scores.size(); ++slot) {
      const float* key = head.keys.data() + slot * size_t(head_dim);
      norms[slot] = std::sqrt(SumOfSquares({key, size_t(head_dim)}));
      if (!IsUsable(norms[slot])) continue;
      for (int64_t i = 0; i < head_dim; ++i) anchor[size_t(i)] += double(key[i]) / norms[slot];
    }
    double squares = 0;
    for (double value : anchor) squares += value * value;
    const double anchor_norm = std::sqrt(squares);
    for (size_t slot = 0; slot < scores.size(); ++slot) {
      const float* key = head.keys.data() + slot * size_t(head_dim);
      const double product = norms[slot] * anchor_norm;
      // A key without direction resembles nothing: cosine 0. One that is not finite ends its request anyway.
      scores[slot] = IsUsable(product) ? float(-Dot(key, anchor.data(), head_dim) / product) : 0.0f;
    }
  }

 private:
  static bool IsUsable(double norm) { return norm > 0 && std::isfinite(norm); }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeKeyDiffPolicy() {
  return std::make_unique<KeyDiffPolicy>();
}

}  // namespace winnow
