#include "engine/evictor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/pooled_selection.h"

namespace winnow {
namespace {

using HeadMasses = std::vector<std::vector<int64_t>>;  // [layer][local head or 1][length]

int64_t CountProtected(std::span<const int32_t> positions, const Protection& protection) {
  const std::vector<uint8_t> is_protected = ProtectedSlots(positions, protection);
  return std::count(is_protected.begin(), is_protected.end(), 1);
}

// One sequence's eviction, in steps: observe, (put groups together, sum over ranks), plan.
class Eviction {
 public:
  explicit Eviction(const DueEviction& due)
      : due_(due),
        settings_(due.request->eviction),
        observations_(due.policy->observations()),
        scope_(settings_.scope.value_or(EvictionScope::kHead)),
        allocation_(settings_.allocation.value_or(BudgetAllocation::kHead)),
        protection_{.sink_tokens = settings_.protect_prompt
                                       ? std::max(settings_.sink_tokens, due.request->prompt_tokens())
                                       : settings_.sink_tokens,
                    .recent_tokens = settings_.recent_tokens,
                    .pinned_positions = due.cache->pinned_positions()},
        num_protected_(CountProtected(due.cache->head(0, 0).positions, protection_)),
        query_positions_(due.cache->QueryPositions()),
        slots_(settings_.timing == EvictionTiming::kAfterPrefill ? due.cache->next_position() : settings_.Trigger()) {
    if (observations_.mass != ObservedMass::kNone) masses_ = due.cache->ReadMass();
    if (scope_ != EvictionScope::kHead && !masses_.empty()) masses_ = SumOverHeads();
  }

  bool crosses_ranks() const { return scope_ != EvictionScope::kHead && !masses_.empty(); }
  HeadMasses& masses() { return masses_; }

  // What has to be put together before heads with replicas can be scored. Masses of shared sets need not: they are
  // added over all ranks, each of which has counted its own query heads.
  GroupStatistics TakePartOfGroups() {
    const SequenceCache& cache = *due_.cache;
    GroupStatistics part;
    if (scope_ == EvictionScope::kHead) part.mass = std::move(masses_);
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
      for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
        if (observations_.queries) part.queries.push_back(cache.queries().head(layer, head));
        if (!observations_.query_moments) continue;
        const std::span<const double> sums = cache.query_sums().head(layer, head);
        part.query_sums.emplace_back(sums.begin(), sums.end());
      }
    }
    return part;
  }
  void SetGroups(GroupStatistics whole, int64_t group) {
    if (scope_ == EvictionScope::kHead) masses_ = std::move(whole.mass);
    whole.mass.clear();
    groups_ = std::move(whole);
    group_ = group;
  }

  // Whether heads compete for their budgets, so that the kept sets come from SelectPooled.
  bool is_pooled() const { return allocation_ != BudgetAllocation::kHead; }

  // One pool a layer, or one in all.
  std::vector<Pool> Pools() const {
    const SequenceCache& cache = *due_.cache;
    const KvBudget budgets = settings_.head_budgets();
    std::vector<Pool> pools(allocation_ == BudgetAllocation::kLayer ? size_t(cache.num_layers()) : 1);
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
      Pool& pool = pools[pools.size() > 1 ? size_t(layer) : 0];
      pool.num_kv_heads = due_.num_kv_heads;
      for (int64_t head = 0; head < due_.num_kv_heads; ++head) {
        pool.candidates_kept += HeadBudget(budgets, layer, head) - num_protected_;
      }
      for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
        const HeadCache& slots = cache.head(layer, head);
        const int64_t free_budget = HeadBudget(budgets, layer, cache.first_kv_head() + head) - num_protected_;
        pool.heads.push_back({.layer = layer,
                              .global_head = cache.first_kv_head() + head,
                              .positions = slots.positions,
                              .scores = Scores(layer, head),
                              .is_protected = ProtectedSlots(slots.positions, protection_),
                              .floor = int64_t(due_.policy->FloorShare() * double(free_budget))});
      }
    }
    return pools;
  }

  // Every head, or every set of heads that share one, by itself.
  KeepPlan PlanByHead() const {
    const SequenceCache& cache = *due_.cache;
    const KvBudget budgets = settings_.head_budgets();
    KeepPlan plan;
    std::vector<int32_t> kept;
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
      for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
        const bool is_new_set = scope_ == EvictionScope::kHead || (scope_ == EvictionScope::kLayer && head == 0) ||
                                (layer == 0 && head == 0);
        if (is_new_set) {
          kept = SelectKept(cache.head(layer, head).positions, Scores(layer, head),
                            HeadBudget(budgets, layer, cache.first_kv_head() + head), protection_);
        }
        plan.kept.push_back(kept);
      }
    }
    return plan;
  }

  void Compact(const KeepPlan& plan) {
    due_.cache->Compact(plan);
    if (observations_.mass == ObservedMass::kWindow) due_.cache->ClearMass();
    due_.cache->KeepQueries(observations_.window_spans_evictions ? due_.queries_kept : 0);
    due_.cache->ClearQuerySums();
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

  int64_t HeadBudget(const KvBudget& budgets, int64_t layer, int64_t global_head) const {
    const int64_t own = due_.policy->LayerBudget({.layer = layer,
                                                  .num_layers = due_.cache->num_layers(),
                                                  .budget = budgets.tokens,
                                                  .protected_slots = num_protected_,
                                                  .slots = slots_});
    return own + budgets.BudgetOf(layer, global_head) - budgets.tokens;
  }

  std::span<const float> OfHead(const SlotScores& scores, bool is_observed, int64_t layer, int64_t head) const {
    if (!is_observed) return {};
    const std::vector<float>& own = scores.at(size_t(layer * due_.cache->num_kv_heads() + head));
    WINNOW_CHECK(int64_t(own.size()) == due_.cache->head(layer, head).length());
    return own;
  }

  std::vector<float> Scores(int64_t layer, int64_t head) const {
    const SequenceCache& cache = *due_.cache;
    const HeadCache& slots = cache.head(layer, head);
    std::vector<float> scores(size_t(slots.length()), 0.0f);
    const QueryWindow& queries = cache.queries();
    WINNOW_CHECK(!observations_.queries || queries.num_rows() > 0);
    const QuerySums& sums = cache.query_sums();
    const size_t index = size_t(layer * cache.num_kv_heads() + head);
    const std::vector<float> keys = observations_.keys ? cache.ReadKeys(layer, head) : std::vector<float>();
    const std::vector<float> values = observations_.values ? cache.ReadValues(layer, head) : std::vector<float>();
    const HeadView view{
        .layer = scope_ == EvictionScope::kSequence ? HeadView::kAllOfThem : layer,
        .global_head = scope_ == EvictionScope::kHead ? cache.first_kv_head() + head : HeadView::kAllOfThem,
        .positions = slots.positions,
        .mass = masses_.empty() ? std::span<const int64_t>() : masses_[MassIndex(layer, head)],
        .keys = keys,
        .head_dim = cache.head_dim(),
        .queries = groups_.queries.empty() ? queries.head(layer, head) : groups_.queries[index],
        .query_positions = query_positions_,
        .query_moments = {.num_queries = sums.num_queries(),
                          .sums = groups_.query_sums.empty() ? sums.head(layer, head) : groups_.query_sums[index]},
        .group = group_ > 0 ? group_ : std::max(queries.row_floats() / cache.head_dim(), sums.group()),
        .values = values,
        .rotary_frequencies = due_.rotary_frequencies,
        .future = OfHead(due_.future, observations_.future, layer, head),
        .replay = OfHead(due_.replay, observations_.replay != ObservedReplay::kNone, layer, head),
        .window_begin = RecentBegin(slots.positions, {.sink_tokens = 0,
                                                      .recent_tokens = observations_.Window(settings_.recent_tokens),
                                                      .pinned_positions = protection_.pinned_positions}),
        .recent_begin = RecentBegin(slots.positions, protection_),
        .tokens_seen = cache.tokens_seen(),
        .prompt_tokens = due_.request->prompt_tokens(),
        .eviction_index = cache.evictions(),
        .seed = due_.request->sampling.seed,
        .choice_index = due_.request->choice_index};
    due_.policy->Score(view, scores);
    return scores;
  }

  const DueEviction& due_;
  const EvictionSettings& settings_;
  const Observations observations_;
  const EvictionScope scope_;
  const BudgetAllocation allocation_;
  const Protection protection_;
  const int64_t num_protected_;  // of every head: protected slots are never evicted, so all heads hold the same
  const std::vector<int64_t> query_positions_;
  const int64_t slots_;  // of a head if all budgets were equal
  HeadMasses masses_;    // empty if the policy observes no mass
  // Where KV heads have replicas: what all query heads of a group have seen, instead of what the cache has.
  GroupStatistics groups_;
  int64_t group_ = 0;  // query heads of a group, with groups_
};

// Puts together what the replicas of KV heads have seen, for all evictions.
void CompleteGroups(KvReplicas& replicas, std::span<const DueEviction> due, std::vector<Eviction>& evictions) {
  std::vector<GroupStatistics> parts;
  for (Eviction& eviction : evictions) parts.push_back(eviction.TakePartOfGroups());
  replicas.Complete(parts, due[0].cache->head_dim());
  for (size_t i = 0; i < evictions.size(); ++i) evictions[i].SetGroups(std::move(parts[i]), replicas.group());
}

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

// The plans of the evictions whose heads compete, in order; one batch of collectives for all of them, and none if there
// are none (the same on all ranks: allocations are).
// is_counted: whether this rank's heads compete in its name; their replicas keep what these do.
std::vector<KeepPlan> PlanPooled(Communicator& communicator, const std::vector<Eviction>& evictions, bool is_counted) {
  std::vector<Pool> pools;
  std::vector<size_t> num_pools;  // of each eviction
  for (const Eviction& eviction : evictions) {
    if (!eviction.is_pooled()) continue;
    std::vector<Pool> own = eviction.Pools();
    num_pools.push_back(own.size());
    std::move(own.begin(), own.end(), std::back_inserter(pools));
  }
  if (pools.empty()) return {};
  auto kept = SelectPooled(communicator, pools, is_counted);
  std::vector<KeepPlan> plans;
  auto at = kept.begin();
  for (size_t count : num_pools) {
    KeepPlan& plan = plans.emplace_back();
    for (size_t i = 0; i < count; ++i, ++at) std::move(at->begin(), at->end(), std::back_inserter(plan.kept));
  }
  return plans;
}

}  // namespace

void EvictToBudget(Communicator& communicator, std::span<const DueEviction> due, KvReplicas* replicas) {
  const bool has_replicas = replicas != nullptr && replicas->exist();
  std::vector<Eviction> evictions;
  evictions.reserve(due.size());
  for (const DueEviction& one : due) evictions.emplace_back(one);
  if (has_replicas) CompleteGroups(*replicas, due, evictions);
  SumOverRanks(communicator, evictions);
  std::vector<KeepPlan> pooled = PlanPooled(communicator, evictions, !has_replicas || replicas->is_first());
  auto next_pooled = pooled.begin();
  for (Eviction& eviction : evictions) eviction.Compact(eviction.is_pooled() ? *next_pooled++ : eviction.PlanByHead());
}

}  // namespace winnow
