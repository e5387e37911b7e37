#include "engine/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "compute/kv_layout.h"

namespace winnow {

Scheduler::Scheduler(const SchedulerLimits& limits)
    : limits_(limits), free_pages_(PagesOfPool(limits.pool_slots, limits.shards)) {}

Status Scheduler::Submit(Request request) {
  WINNOW_CHECK(!request.prompt.empty() && request.max_tokens > 0);
  const std::vector<int64_t> pages = PagesToReserve(request, limits_.shards);
  const std::vector<int64_t> pool = PagesOfPool(limits_.pool_slots, limits_.shards);
  for (size_t rank = 0; rank < pages.size(); ++rank) {
    if (pages[rank] <= pool[rank]) continue;
    return OutOfMemory("request " + std::to_string(request.id) + " needs " + std::to_string(pages[rank]) +
                       " KV pages on rank " + std::to_string(rank) + " (" + std::to_string(pages[rank] * kPageSlots) +
                       " slots over its heads), its page pool holds " + std::to_string(pool[rank]) + " (" +
                       std::to_string(pool[rank] * kPageSlots) +
                       " slots): lower --max-tokens or --max-model-len, give a smaller budget or a larger "
                       "--kv-cache-memory-bytes");
  }
  waiting_.push_back(std::move(request));
  return OkStatus();
}

bool Scheduler::Fits(const std::vector<int64_t>& pages) const {
  for (size_t rank = 0; rank < pages.size(); ++rank) {
    if (pages[rank] > free_pages_[rank]) return false;
  }
  return true;
}

void Scheduler::Admit(StepPlan* plan) {
  while (!waiting_.empty() && int64_t(running_.size()) < limits_.max_num_seqs) {
    std::vector<int64_t> pages = PagesToReserve(waiting_.front(), limits_.shards);
    if (!Fits(pages)) return;  // first come, first served
    Request& request = waiting_.front();
    for (size_t rank = 0; rank < pages.size(); ++rank) free_pages_[rank] -= pages[rank];
    running_.push_back({.request_id = request.id,
                        .schedule = EvictionSchedule(request),
                        .reserved_pages = std::move(pages),
                        .known_tokens = int64_t(request.prompt.size()),
                        .last_step = plan->step - 1});
    plan->admitted.push_back(std::move(request));
    waiting_.pop_front();
  }
}

void Scheduler::AddItem(Running& running, int64_t max_tokens, StepPlan* plan) {
  const int64_t count = std::min({running.pending(), max_tokens, running.schedule.TokensUntilCut()});
  const EvictionSchedule::Due due = running.schedule.Advance(count);
  running.last_step = plan->step;
  plan->items.push_back({.request_id = running.request_id,
                         .num_tokens = count,
                         .sample = running.pending() == 0,
                         .pinned_block = due.pinned_block,
                         .evict = due.evict});
}

StepPlan Scheduler::Next() {
  StepPlan plan;
  plan.step = step_++;
  plan.finished = std::exchange(finished_, {});
  Admit(&plan);
  std::vector<Running*> decodes, prompts;
  for (Running& running : running_) {
    if (running.pending() > 0) (running.pending() == 1 ? decodes : prompts).push_back(&running);
  }
  // Decode rows first, so that running texts flow; what is left of the step goes to prompts, oldest first.
  std::stable_sort(decodes.begin(), decodes.end(),
                   [](const Running* a, const Running* b) { return a->last_step < b->last_step; });
  const bool keep_row = !prompts.empty() && prompts.front()->last_step < plan.step - 1;
  int64_t left = limits_.max_num_batched_tokens;
  for (Running* running : decodes) {
    if (left == int64_t(keep_row)) break;
    AddItem(*running, 1, &plan);
    --left;
  }
  for (Running* running : prompts) {
    if (left == 0) break;
    AddItem(*running, left, &plan);
    left -= plan.items.back().num_tokens;
  }
  plan.stop = plan.items.empty();
  WINNOW_CHECK(!plan.stop || (waiting_.empty() && running_.empty()));
  return plan;
}

void Scheduler::TokenSampled(int64_t request_id) {
  for (Running& running : running_) {
    if (running.request_id == request_id) ++running.known_tokens;
  }
}

void Scheduler::Finish(int64_t request_id) {
  const auto it = std::find_if(running_.begin(), running_.end(),
                               [&](const Running& running) { return running.request_id == request_id; });
  WINNOW_CHECK(it != running_.end());
  AddPages(it->reserved_pages, &free_pages_);
  running_.erase(it);
  finished_.push_back(request_id);
}

}  // namespace winnow
