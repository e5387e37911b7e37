// One request being worked on, on one rank: its tokens (the same on all ranks) and this rank's part of its cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/eviction_schedule.h"
#include "engine/rank_load.h"
#include "kv/sequence_cache.h"
#include "policies/eviction_policy.h"

namespace winnow {

struct Sequence {
  Request request;
  std::unique_ptr<EvictionPolicy> policy;
  SequenceCache cache;
  EvictionSchedule schedule;
  std::vector<int32_t> tokens;  // prompt, then sampled; the first cache.tokens_seen() of them are in the cache
  uint64_t kept_hash = 0;       // of every eviction so far, this rank's share
  int64_t peak_pages = 0;       // on this rank, as is:
  int64_t peak_entries = 0;
  int64_t pages_evicted = 0;  // returned to the pool by evictions, on this rank

  // After slots have been added.
  void CountPeaks() {
    peak_pages = std::max(peak_pages, cache.num_pages());
    peak_entries = std::max(peak_entries, cache.entries());
  }
};

// What became of a sequence's cache, over all ranks.
struct SequenceReport {
  int64_t request_id = 0;
  int64_t tokens_seen = 0;
  int64_t evictions = 0;
  int64_t kept_entries = 0;    // slots of the text held at the end, over layers and KV heads
  int64_t pinned_entries = 0;  // slots that belong to no text token, likewise
  int64_t evicted_entries = 0;
  int64_t full_entries = 0;  // what a full cache would hold: tokens seen * layers * KV heads
  int64_t pages_freed = 0;   // by evictions
  std::vector<int64_t> peak_bytes_per_rank;
  RankLoad load;
  uint64_t kept_hash = 0;  // of every kept set, after each eviction and at the end; the same for any rank count
  std::shared_ptr<const ResumePoint> saved;  // on rank 0, if the request asked for it
};

}  // namespace winnow
