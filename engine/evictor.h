// Evicts sequences down to their budgets: gathers what their policies observe, lets the policies score, selects,
// protects, compacts. The only place where policy and cache meet. Engine thread only; what it decides is a function of
// data that all ranks share. Collective.
#pragma once

#include <span>
#include <vector>

#include "dist/communicator.h"
#include "engine/kv_replicas.h"
#include "engine/request.h"
#include "kv/sequence_cache.h"
#include "policies/eviction_policy.h"

namespace winnow {

// One number a slot for policies that observe what only extra passes over the text can tell:
// [layer * local KV heads + local head][length].
using SlotScores = std::vector<std::vector<float>>;

// A sequence whose heads have reached budget + interval.
struct DueEviction {
  const EvictionPolicy* policy;
  const Request* request;
  SequenceCache* cache;
  int64_t num_kv_heads;                             // of a layer, over all ranks
  SlotScores future = {};                           // empty unless the policy observes it
  SlotScores replay = {};                           // likewise
  std::span<const double> rotary_frequencies = {};  // of the model; HeadView tells
  // Newest tokens whose queries stay for the next eviction, if the policy's window spans evictions.
  int64_t queries_kept = 0;
};

// Every head keeps what request.eviction.head_budgets() says. Where heads share a kept set (scope layer or sequence)
// and the policy scores by attention mass, the integer masses are added over the heads of all ranks: one all-reduce for
// all sequences together, of 8 bytes a slot and layer (scope layer) or a slot (scope sequence). Where heads compete for
// budget (allocation layer or sequence), one exact selection for all sequences together. Where KV heads have replicas,
// these first put together what their query heads have seen (engine/kv_replicas.h). Otherwise nothing crosses ranks.
// replicas: null if no KV head has any.
void EvictToBudget(Communicator& communicator, std::span<const DueEviction> due, KvReplicas* replicas = nullptr);

}  // namespace winnow
