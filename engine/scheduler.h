// Decides what runs in the next step: admission by reserved slots, decode before prefill, prefill in chunks that never
// cross an eviction point. With fewer rows than sequences they take turns: the one that waited longest decodes first,
// and the oldest prompt still being read gets a row at least every second step. Prompts are read one after the other.
// Pure bookkeeping on the leader; whatever it decides changes no result's bits (E2, E3).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/status.h"
#include "engine/eviction_schedule.h"
#include "engine/step_plan.h"

namespace winnow {

struct SchedulerLimits {
  int64_t max_num_seqs = 8;              // sequences that run at the same time
  int64_t max_num_batched_tokens = 512;  // token rows of a step
  int64_t pool_slots = 0;                // slots per layer and KV head that the page pool holds
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits) : limits_(limits) {}

  // Queues a request. OutOfMemory if it could never run alone: its slots, the pool's slots.
  Status Submit(Request request);

  // The next step. Empty items and no `finished` mean that nothing is left to do (the plan then says stop).
  StepPlan Next();

  // What the step did: a token of a sequence was sampled and it goes on.
  void TokenSampled(int64_t request_id);
  // The sequence is over: the next plan reports it finished and frees its slots.
  void Finish(int64_t request_id);

 private:
  struct Running {
    int64_t request_id;
    EvictionSchedule schedule;  // its tokens: in the cache or on their way in the current step
    int64_t reserved_slots;
    int64_t known_tokens;  // prompt and sampled
    int64_t last_step;     // that had rows of it; before the first, the one before its admission
    int64_t pending() const { return known_tokens - schedule.tokens(); }
  };
  void Admit(StepPlan* plan);
  void AddItem(Running& running, int64_t max_tokens, StepPlan* plan);

  const SchedulerLimits limits_;
  std::deque<Request> waiting_;
  std::vector<Running> running_;   // in order of admission
  std::vector<int64_t> finished_;  // to be reported by the next plan
  int64_t reserved_slots_ = 0;
  int64_t step_ = 0;
};

// Slots that a sequence occupies at most, in whole pages per layer and head.
int64_t SlotsToReserve(const Request& request);

}  // namespace winnow
