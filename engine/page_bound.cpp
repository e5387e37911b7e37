#include "engine/page_bound.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "compute/kv_layout.h"
#include "engine/context_replay.h"
#include "engine/eviction_schedule.h"
#include "engine/resume_point.h"

namespace winnow {
namespace {

int64_t PagesOf(int64_t slots) {
  return (slots + kPageSlots - 1) / kPageSlots;
}

// One request whose heads may hold different numbers of slots.
class RaggedBound {
 public:
  RaggedBound(const Request& request, const KvShards& shards, int64_t tokens)
      : request_(request),
        settings_(request.eviction),
        shards_(shards),
        num_kv_heads_(shards.num_kv_heads()),
        policy_(MakePolicy(settings_.policy).value()),
        schedule_(request),
        peaks_(schedule_.PeaksUntil(tokens)),
        whole_(schedule_.WholeText(tokens)),
        pinned_counts_(schedule_.PinnedSlotCounts(tokens)) {}

  std::vector<int64_t> Pages() const {
    std::vector<int64_t> pages;
    for (const Range& own : shards_.kv_heads) {
      int64_t most = PagesBeforeEviction(own);
      // How many slots are protected changes the budgets of layers, and what other ranks' heads are sure to keep.
      for (size_t i = 0; peaks_.evicts && i < pinned_counts_.size(); ++i) {
        most = std::max(most, PagesSinceEviction(own, ProtectedSlots(pinned_counts_[i])));
      }
      pages.push_back(most);
    }
    return pages;
  }

 private:
  // Lengths are known until the first eviction: all equal, or those of the resume point and what follows.
  int64_t PagesBeforeEviction(const Range& own) const {
    if (request_.resume == nullptr) return shards_.num_layers * own.size() * PagesOf(peaks_.before_eviction);
    const SequenceSnapshot& cache = request_.resume->cache;
    int64_t pages = 0;
    for (int64_t layer = 0; layer < shards_.num_layers; ++layer) {
      for (int64_t head = own.begin; head < own.end; ++head) {
        pages += PagesOf(cache.head(layer, head).length() + peaks_.before_eviction - schedule_.slots());
      }
    }
    return pages;
  }

  int64_t PagesSinceEviction(const Range& own, int64_t protected_slots) const {
    int64_t pages = 0;
    Pool pool;
    for (int64_t layer = 0; layer < shards_.num_layers; ++layer) {
      for (int64_t head = 0; head < num_kv_heads_; ++head) {
        const int64_t budget = HeadBudget(layer, head, protected_slots);
        const bool is_own = head >= own.begin && head < own.end;
        if (*settings_.allocation != BudgetAllocation::kHead) {
          pool.total += budget;
          pool.own_heads += is_own;
          if (!is_own) pool.of_others += protected_slots + Floor(budget - protected_slots, protected_slots);
        } else if (is_own) {
          pages += PagesOf(std::min(whole_, budget + peaks_.since_eviction));
        }
      }
      if (*settings_.allocation == BudgetAllocation::kLayer) pages += PagesOfPool(std::exchange(pool, {}));
    }
    return pages + PagesOfPool(pool);
  }

  // Heads that share a budget: of all ranks together they hold its total after an eviction.
  struct Pool {
    int64_t total = 0;
    int64_t of_others = 0;  // what other ranks' heads keep in any case
    int64_t own_heads = 0;
  };

  // Each head has a last page that may hold a single slot.
  int64_t PagesOfPool(const Pool& pool) const {
    const int64_t slots = pool.total - pool.of_others + pool.own_heads * peaks_.since_eviction;
    return std::min(pool.own_heads * PagesOf(whole_), (slots + pool.own_heads * (kPageSlots - 1)) / kPageSlots);
  }

  int64_t ProtectedSlots(int64_t pinned_slots) const {
    const int64_t first =
        settings_.protect_prompt ? std::max(settings_.sink_tokens, request_.prompt_tokens()) : settings_.sink_tokens;
    return first + settings_.recent_tokens + pinned_slots;
  }

  int64_t HeadBudget(int64_t layer, int64_t global_head, int64_t protected_slots) const {
    const bool is_once = settings_.timing == EvictionTiming::kAfterPrefill;
    const int64_t own = policy_->LayerBudget({.layer = layer,
                                              .num_layers = shards_.num_layers,
                                              .budget = settings_.budget,
                                              .protected_slots = protected_slots,
                                              .slots = is_once ? peaks_.before_eviction : settings_.Trigger()});
    return own + settings_.head_budgets().BudgetOf(layer, global_head) - settings_.budget;
  }

  // What a head keeps beside protected slots before heads compete. A head of a saved text may hold less.
  int64_t Floor(int64_t free_budget, int64_t protected_slots) const {
    int64_t floor = int64_t(policy_->FloorShare() * double(free_budget));
    if (request_.resume == nullptr) return floor;
    for (const HeadSnapshot& head : request_.resume->cache.heads) {
      floor = std::min(floor, std::max<int64_t>(0, head.length() - protected_slots));
    }
    return floor;
  }

  const Request& request_;
  const EvictionSettings& settings_;
  const KvShards& shards_;
  const int64_t num_kv_heads_;  // over all ranks
  const std::unique_ptr<EvictionPolicy> policy_;
  const EvictionSchedule schedule_;
  const EvictionSchedule::Peaks peaks_;
  const int64_t whole_;
  const std::vector<int64_t> pinned_counts_;
};

// Where every head has the same budget, but for one slot.
int64_t SlotsOfEvenHeads(const Request& request, int64_t tokens) {
  const EvictionSchedule schedule(request);
  // The schedule counts a head with the smaller budget; after an eviction one with the larger budget has a slot more.
  const bool was_evicted = request.resume != nullptr && request.resume->cache.evictions > 0;
  const bool has_larger_heads = request.eviction.larger_heads > 0 && (was_evicted || schedule.NextEviction() < tokens);
  return schedule.MaxSlots(tokens) + has_larger_heads;
}

}  // namespace

KvShards MakeKvShards(int64_t num_layers, const ShardPlan& plan) {
  return {.num_layers = num_layers, .kv_heads = plan.kv_heads};
}

std::vector<int64_t> PagesToReserve(const Request& request, const KvShards& shards) {
  // The last sampled token is never fed back.
  const int64_t tokens = int64_t(request.prompt.size()) + std::max<int64_t>(request.max_tokens - 1, 0);
  std::vector<int64_t> pages = request.eviction.even_heads ? PagesOfPool(SlotsOfEvenHeads(request, tokens), shards)
                                                           : RaggedBound(request, shards, tokens).Pages();
  if (!Replays(request.eviction) || EvictionSchedule(request).NextEviction() > tokens) return pages;
  const std::vector<int64_t> replay = PagesOfPool(SlotsWithReplay(request), shards);
  for (size_t rank = 0; rank < pages.size(); ++rank) pages[rank] = std::max(pages[rank], replay[rank]);
  return pages;
}

std::vector<int64_t> PagesOfPool(int64_t pool_slots, const KvShards& shards) {
  std::vector<int64_t> pages;
  for (size_t rank = 0; rank < shards.num_ranks(); ++rank) {
    pages.push_back(PagesOf(pool_slots) * shards.heads_of_rank(rank));
  }
  return pages;
}

int64_t PoolSlotsOf(const std::vector<int64_t>& pages, const KvShards& shards) {
  WINNOW_CHECK(pages.size() == shards.num_ranks());
  int64_t most = 0;
  for (size_t rank = 0; rank < pages.size(); ++rank) {
    const int64_t heads = shards.heads_of_rank(rank);
    most = std::max(most, (pages[rank] + heads - 1) / heads);
  }
  return most * kPageSlots;
}

void AddPages(const std::vector<int64_t>& more, std::vector<int64_t>* pages) {
  WINNOW_CHECK(more.size() == pages->size());
  for (size_t rank = 0; rank < more.size(); ++rank) (*pages)[rank] += more[rank];
}

}  // namespace winnow
