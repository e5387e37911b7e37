#include "engine/evictor.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace winnow {
namespace {

using HeadMasses = std::vector<std::vector<int64_t>>;  // [layer][local head or 1][length]

// One sequence's eviction, in steps: observe, (sum over ranks), plan.
class Eviction {
 public:
  explicit Eviction(const DueEviction& due)
      : due_(due),
        settings_(due.request->eviction),
        observations_(due.policy->observations()),
        scope_(settings_.scope.value_or(EvictionScope::kHead)),
        protection_{.sink_tokens = settings_.protect_prompt
                                       ? std::max(settings_.sink_tokens, due.request->prompt_tokens())
                                       : settings_.sink_tokens,
                    .recent_tokens = settings_.recent_tokens,
                    .pinned_positions = due.cache->pinned_positions()} {
    if (observations_.mass != ObservedMass::kNone) masses_ = due.cache->ReadMass();
    if (scope_ != EvictionScope::kHead && !masses_.empty()) masses_ = SumOverHeads();
  }

  bool crosses_ranks() const { return scope_ != EvictionScope::kHead && !masses_.empty(); }
  HeadMasses& masses() { return masses_; }

  void Compact() {
    SequenceCache& cache = *due_.cache;
    KeepPlan plan;
    std::vector<int32_t> kept;
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
      for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
        const bool is_new_set = scope_ == EvictionScope::kHead || (scope_ == EvictionScope::kLayer && head == 0) ||
                                (layer == 0 && head == 0);
        if (is_new_set) kept = Keep(layer, head);
        plan.kept.push_back(kept);
      }
    }
    cache.Compact(plan);
    if (observations_.mass == ObservedMass::kWindow) cache.ClearMass();
  }

 private:
  // The index into masses_ of a head's (or shared) counters.
  size_t MassIndex(int64_t layer, int64_t head) const {
    if (scope_ == EvictionScope::kSequence) return 0;
    return size_t(scope_ == EvictionScope::kLayer ? layer : layer * due_.cache->num_kv_heads() + head);
  }

  // This rank's heads of a layer, or of all layers, added up. Those that share a kept set have the same slots.
  HeadMasses SumOverHeads() const {
    const int64_t layers = due_.cache->num_layers(), heads = due_.cache->num_kv_heads();
    HeadMasses sums(scope_ == EvictionScope::kLayer ? size_t(layers) : 1);
    for (size_t i = 0; i < masses_.size(); ++i) {
      std::vector<int64_t>& sum = sums[MassIndex(int64_t(i) / heads, 0)];
      sum.resize(masses_[i].size(), 0);
      WINNOW_CHECK(sum.size() == masses_[i].size());
      for (size_t slot = 0; slot < sum.size(); ++slot) sum[slot] += masses_[i][slot];
    }
    return sums;
  }

  std::vector<int32_t> Keep(int64_t layer, int64_t head) const {
    const SequenceCache& cache = *due_.cache;
    const HeadCache& slots = cache.head(layer, head);
    std::vector<float> scores(size_t(slots.length()), 0.0f);
    const std::vector<float> keys = observations_.keys ? cache.ReadKeys(layer, head) : std::vector<float>();
    const HeadView view{
        .layer = scope_ == EvictionScope::kSequence ? HeadView::kAllOfThem : layer,
        .global_head = scope_ == EvictionScope::kHead ? cache.first_kv_head() + head : HeadView::kAllOfThem,
        .positions = slots.positions,
        .mass = masses_.empty() ? std::span<const int64_t>() : masses_[MassIndex(layer, head)],
        .keys = keys,
        .head_dim = cache.head_dim(),
        .recent_begin = RecentBegin(slots.positions, protection_),
        .tokens_seen = cache.tokens_seen(),
        .prompt_tokens = due_.request->prompt_tokens(),
        .eviction_index = cache.evictions(),
        .seed = due_.request->sampling.seed,
        .choice_index = due_.request->choice_index};
    due_.policy->Score(view, scores);
    const int64_t budget = settings_.head_budgets().BudgetOf(layer, cache.first_kv_head() + head);
    return SelectKept(slots.positions, scores, budget, protection_);
  }

  const DueEviction& due_;
  const EvictionSettings& settings_;
  const Observations observations_;
  const EvictionScope scope_;
  const Protection protection_;
  HeadMasses masses_;  // empty if the policy observes no mass
};

// Adds the shared masses of all evictions over the ranks, in one collective.
void SumOverRanks(Communicator& communicator, std::vector<Eviction>& evictions) {
  std::vector<int64_t> all;
  const auto for_each = [&](auto&& f) {
    for (Eviction& eviction : evictions) {
      if (!eviction.crosses_ranks()) continue;
      for (std::vector<int64_t>& mass : eviction.masses()) f(mass);
    }
  };
  for_each([&](std::vector<int64_t>& mass) { all.insert(all.end(), mass.begin(), mass.end()); });
  if (all.empty()) return;  // the same on all ranks: scopes and lengths are
  communicator.AllReduce(std::span<int64_t>(all), ReduceOp::kSum);
  auto at = all.begin();
  for_each([&](std::vector<int64_t>& mass) {
    std::copy(at, at + int64_t(mass.size()), mass.begin());
    at += int64_t(mass.size());
  });
}

}  // namespace

void EvictToBudget(Communicator& communicator, std::span<const DueEviction> due) {
  std::vector<Eviction> evictions;
  evictions.reserve(due.size());
  for (const DueEviction& one : due) evictions.emplace_back(one);
  SumOverRanks(communicator, evictions);
  for (Eviction& eviction : evictions) eviction.Compact();
}

}  // namespace winnow
