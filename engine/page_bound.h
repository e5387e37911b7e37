// How many pages of every rank's pool a request can take: what admission reserves. Where heads may hold different
// numbers of slots (allocation layer or sequence, layers with budgets of their own) the bound is over all of a rank's
// heads together: evictions leave the heads that share a budget exactly its total, whoever wins it. A function of the
// request and of how heads lie on ranks, so the same on every rank; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "dist/shard.h"
#include "engine/request.h"

namespace winnow {

// The model's KV heads on the ranks of its group.
struct KvShards {
  int64_t num_layers = 1;
  std::vector<Range> kv_heads = {{0, 1}};  // [rank] of a layer; replicas have the same one

  size_t num_ranks() const { return kv_heads.size(); }
  int64_t num_kv_heads() const { return kv_heads.back().end; }                             // of a layer, on all ranks
  int64_t heads_of_rank(size_t rank) const { return num_layers * kv_heads[rank].size(); }  // of all layers
};
KvShards MakeKvShards(int64_t num_layers, const ShardPlan& plan);

// [rank] pages that the request holds at the same time at most, whatever its heads' scores are.
std::vector<int64_t> PagesToReserve(const Request& request, const KvShards& shards);

// [rank] pages of a pool with room for so many slots (whole pages) of every head.
std::vector<int64_t> PagesOfPool(int64_t pool_slots, const KvShards& shards);
// The least slots of every head, in whole pages, of a pool that has these pages on each rank.
int64_t PoolSlotsOf(const std::vector<int64_t>& pages, const KvShards& shards);

// pages += more, rank by rank.
void AddPages(const std::vector<int64_t>& more, std::vector<int64_t>* pages);

}  // namespace winnow
