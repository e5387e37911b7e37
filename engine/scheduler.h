// Decides what runs in the next step: admission by reserved pages, decode before prefill, prefill in chunks that never
// cross an eviction point. With fewer rows than sequences they take turns: the one that waited longest decodes first,
// and the oldest prompt still being read gets a row at least every second step. Prompts are read one after the other.
// Pure bookkeeping on the leader; whatever it decides changes no result's bits (E2, E3).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/status.h"
#include "engine/eviction_schedule.h"
#include "engine/page_bound.h"
#include "engine/step_plan.h"

namespace winnow {

struct SchedulerLimits {
  int64_t max_num_seqs = 8;              // sequences that run at the same time
  int64_t max_num_batched_tokens = 512;  // token rows of a step
  int64_t pool_slots = 0;                // slots per layer and KV head that every rank's page pool has room for
  KvShards shards = {};                  // whose heads those are
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // Queues a request. OutOfMemory if it could never run alone: the rank, its pages, the pool's pages.
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
    EvictionSchedule schedule;            // its tokens: in the cache or on their way in the current step
    std::vector<int64_t> reserved_pages;  // [rank]
    int64_t known_tokens;                 // prompt and sampled
    int64_t last_step;                    // that had rows of it; before the first, the one before its admission
    int64_t pending() const { return known_tokens - schedule.tokens(); }
  };
  void Admit(StepPlan* plan);
  void AddItem(Running& running, int64_t max_tokens, StepPlan* plan);

  // Whether every rank's pool has so many pages left.
  bool Fits(const std::vector<int64_t>& pages) const;

  const SchedulerLimits limits_;
  std::deque<Request> waiting_;
  std::vector<Running> running_;     // in order of admission
  std::vector<int64_t> finished_;    // to be reported by the next plan
  std::vector<int64_t> free_pages_;  // [rank] not reserved
  int64_t step_ = 0;
};

}  // namespace winnow
