// Evicts one sequence down to its budget: asks the policy for scores, selects, protects, compacts. The only place where
// policy and cache meet. Engine thread only; what it decides is a function of data that all ranks share.
#pragma once

#include "engine/request.h"
#include "kv/sequence_cache.h"
#include "policies/eviction_policy.h"

namespace winnow {

// Every local head of `cache` keeps `request.eviction.budget` slots. No collective: the policies so far either decide
// per head or score by positions alone, which are the same on every rank.
void EvictToBudget(const EvictionPolicy& policy, const Request& request, SequenceCache& cache);

}  // namespace winnow
