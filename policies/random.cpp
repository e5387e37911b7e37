// Uniformly random survivors: the floor that a policy must beat at the same budget. Every head of every layer draws for
// itself, anew at each eviction, from counter-based numbers (Salmon et al., SC 2011; base/philox.h), so that the draw
// does not depend on call order, rank or batch.
#include "base/check.h"
#include "base/philox.h"
#include "policies/builtin_policies.h"

namespace winnow {
namespace {

class RandomPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "random"; }

  // Uniform in (0, 1). Key: the request's seed. Counter, one number a field, so that no two draws share one:
  //   purpose (8 bits) | choice (24), layer (16) | global head (16), eviction, position.
  void Score(const HeadView& head, std::span<float> scores) const override {
    WINNOW_CHECK(scores.size() == head.positions.size());
    const uint32_t use = uint32_t(RandomPurpose::kRandomEviction) | uint32_t(head.choice_index) << 8;
    // 0xffff stands for all layers or all heads.
    const uint32_t place = uint32_t(head.layer & 0xffff) | uint32_t(head.global_head & 0xffff) << 16;
    for (size_t slot = 0; slot < scores.size(); ++slot) {
      const PhiloxBlock block =
          Philox(head.seed, {use, place, uint32_t(head.eviction_index), uint32_t(head.positions[slot])});
      scores[slot] = OpenUnitFloat(block[0]);
    }
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeRandomPolicy() {
  return std::make_unique<RandomPolicy>();
}

}  // namespace winnow
