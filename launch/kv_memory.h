// How large the page pools of a run are, before anything is allocated: what the requests need, or what the user gives.
// The front plans for all ranks; the others receive the slots.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "compute/kv_layout.h"
#include "dist/shard.h"
#include "engine/request.h"

namespace winnow {

struct KvMemoryNeeds {
  const std::vector<Request>* requests;
  int64_t max_num_seqs;                   // requests that run together
  int64_t context;                        // tokens of prompt and answer at most
  std::optional<int64_t> bytes_per_rank;  // of pages, --kv-cache-memory-bytes; none: what the requests need
};

struct KvMemory {
  int64_t pool_slots = 0;               // per layer and KV head, whole pages, the same on every rank
  std::vector<int64_t> bytes_per_rank;  // of pages
};

// Heads are split unevenly, so that the ranks with most heads have room for the fewest slots; all take as many as they.
// InvalidArgument if a request can never run in the given bytes: needed and available bytes, the rank with least room,
// and the largest --max-model-len under which everything fits, if there is one.
Result<KvMemory> PlanKvMemory(const KvMemoryNeeds& needs, const KvLayout& layout, int64_t num_layers,
                              const ShardPlan& plan);

// One line: what the pools are about to take on each rank. counters: a 64-bit counter a slot of attention statistics.
std::string KvBill(const KvMemory& memory, const KvLayout& layout, bool with_counters);

}  // namespace winnow
