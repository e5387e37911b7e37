#include "engine/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "compute/kv_layout.h"
#include "engine/resume_point.h"

namespace winnow {

int64_t SlotsToReserve(const Request& request) {
  // The last sampled token is never fed back.
  const int64_t tokens = int64_t(request.prompt.size()) + std::max<int64_t>(request.max_tokens - 1, 0);
  const EvictionSchedule schedule(request);
  // The schedule counts a head with the smaller budget; after an eviction one with the larger budget has a slot more.
  const bool was_evicted = request.resume != nullptr && request.resume->cache.evictions > 0;
  const bool has_larger_heads = request.eviction.larger_heads > 0 && (was_evicted || schedule.NextEviction() < tokens);
  // Where heads get different budgets one may keep everything.
  const int64_t slots =
      request.eviction.even_heads ? schedule.MaxSlots(tokens) + has_larger_heads : schedule.MaxSlotsOfAnyHead(tokens);
  return (slots + kPageSlots - 1) / kPageSlots * kPageSlots;
}

Status Scheduler::Submit(Request request) {
  WINNOW_CHECK(!request.prompt.empty() && request.max_tokens > 0);
  const int64_t slots = SlotsToReserve(request);
  if (slots > limits_.pool_slots) {
    return OutOfMemory("request " + std::to_string(request.id) + " needs " + std::to_string(slots) +
                       " KV slots per head, the page pool holds " + std::to_string(limits_.pool_slots) +
                       ": lower --max-tokens or --max-model-len, give a smaller budget or a larger "
                       "--kv-cache-memory-bytes");
  }
  waiting_.push_back(std::move(request));
  return OkStatus();
}

void Scheduler::Admit(StepPlan* plan) {
  while (!waiting_.empty() && int64_t(running_.size()) < limits_.max_num_seqs) {
    const int64_t slots = SlotsToReserve(waiting_.front());
    if (reserved_slots_ + slots > limits_.pool_slots) return;  // first come, first served
    Request& request = waiting_.front();
    running_.push_back({.request_id = request.id,
                        .schedule = EvictionSchedule(request),
                        .reserved_slots = slots,
                        .known_tokens = int64_t(request.prompt.size()),
                        .last_step = plan->step - 1});
    reserved_slots_ += slots;
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
  reserved_slots_ -= it->reserved_slots;
  running_.erase(it);
  finished_.push_back(request_id);
}

}  // namespace winnow
