#include "launch/kv_memory.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "engine/page_bound.h"
#include "launch/number_text.h"

namespace winnow {
namespace {

// Of a pool that observes attention: a 64-bit counter a slot, as much again to read them out, and the page in a list.
constexpr int64_t kCounterBytesPerPage = 2 * kPageSlots * int64_t(sizeof(int64_t)) + int64_t(sizeof(int32_t));

// Room for as many requests as may run together, whichever they are: every rank's largest.
int64_t SlotsNeeded(const std::vector<Request>& requests, int64_t max_num_seqs, const KvShards& shards) {
  std::vector<std::vector<int64_t>> pages(shards.num_ranks());  // [rank][request]
  for (const Request& request : requests) {
    const std::vector<int64_t> own = PagesToReserve(request, shards);
    for (size_t rank = 0; rank < own.size(); ++rank) pages[rank].push_back(own[rank]);
  }
  std::vector<int64_t> sums;
  for (std::vector<int64_t>& of_rank : pages) {
    std::sort(of_rank.begin(), of_rank.end(), std::greater<>());
    of_rank.resize(size_t(std::min<int64_t>(max_num_seqs, int64_t(of_rank.size()))));
    sums.push_back(std::accumulate(of_rank.begin(), of_rank.end(), int64_t(0)));
  }
  return PoolSlotsOf(sums, shards);
}

// The rank whose pool a request fills first; of equal ones, the one with most heads.
size_t FullestRank(const std::vector<int64_t>& pages, const KvShards& shards) {
  const auto slots = [&](size_t rank) {
    const int64_t heads = shards.heads_of_rank(rank);
    return std::pair((pages[rank] + heads - 1) / heads, heads);
  };
  size_t fullest = 0;
  for (size_t rank = 1; rank < pages.size(); ++rank) {
    if (slots(rank) > slots(fullest)) fullest = rank;
  }
  return fullest;
}

// The largest context under which a request fits into the pool, at most `context`; none if not even its prompt and one
// token do, or its budget is larger.
std::optional<int64_t> LargestContext(const Request& request, int64_t pool_slots, int64_t context,
                                      const KvShards& shards) {
  const int64_t prompt = int64_t(request.prompt.size());
  const auto fits = [&](int64_t tokens) {
    Request shorter = request;
    shorter.max_tokens = std::min(request.max_tokens, tokens - prompt);
    return PoolSlotsOf(PagesToReserve(shorter, shards), shards) <= pool_slots;
  };
  int64_t most = prompt + 1, too_many = context + 1;  // of tokens: fits, does not
  if (!fits(most)) return std::nullopt;
  while (most + 1 < too_many) {
    const int64_t middle = most + (too_many - most) / 2;
    (fits(middle) ? most : too_many) = middle;
  }
  if (request.eviction.evicts() && most < request.eviction.budget) return std::nullopt;
  return most;
}

// The same for all of them.
std::optional<int64_t> LargestContext(const std::vector<Request>& requests, int64_t pool_slots, int64_t context,
                                      const KvShards& shards) {
  int64_t most = context, needed = 0;
  for (const Request& request : requests) {
    const std::optional<int64_t> largest = LargestContext(request, pool_slots, context, shards);
    if (!largest) return std::nullopt;
    most = std::min(most, *largest);
    needed = std::max(needed, std::max(int64_t(request.prompt.size()) + 1, request.eviction.budget));
  }
  if (most < needed) return std::nullopt;
  return most;
}

}  // namespace

Result<KvMemory> PlanKvMemory(const KvMemoryNeeds& needs, const KvLayout& layout, int64_t num_layers,
                              const ShardPlan& plan) {
  const KvShards shards = MakeKvShards(num_layers, plan);
  std::vector<int64_t> page_row_bytes;  // one page a layer and head
  for (size_t rank = 0; rank < shards.num_ranks(); ++rank) {
    page_row_bytes.push_back(shards.heads_of_rank(rank) * layout.page_bytes());
  }
  const int64_t most_bytes = *std::max_element(page_row_bytes.begin(), page_row_bytes.end());
  KvMemory memory;
  if (!needs.bytes_per_rank) {
    memory.pool_slots = SlotsNeeded(*needs.requests, needs.max_num_seqs, shards);
  } else {
    memory.pool_slots = *needs.bytes_per_rank / most_bytes * kPageSlots;
    for (const Request& request : *needs.requests) {
      const std::vector<int64_t> pages = PagesToReserve(request, shards);
      const int64_t slots = PoolSlotsOf(pages, shards);
      if (slots <= memory.pool_slots) continue;
      const auto largest = LargestContext(*needs.requests, memory.pool_slots, needs.context, shards);
      return InvalidArgument("request " + std::to_string(request.id) + " needs " +
                             std::to_string(slots / kPageSlots * most_bytes) + " bytes of KV pages a rank (rank " +
                             std::to_string(FullestRank(pages, shards)) + " has least room: " + std::to_string(slots) +
                             " slots a head), --kv-cache-memory-bytes makes " + std::to_string(*needs.bytes_per_rank) +
                             " available (" + std::to_string(memory.pool_slots) + " slots); " +
                             (largest ? "the largest --max-model-len that fits is " + std::to_string(*largest) +
                                            "; or give more bytes, or a smaller budget"
                                      : "no --max-model-len helps: give more bytes, or a smaller budget"));
    }
  }
  for (int64_t bytes : page_row_bytes) memory.bytes_per_rank.push_back(memory.pool_slots / kPageSlots * bytes);
  return memory;
}

std::string KvBill(const KvMemory& memory, const KvLayout& layout, bool with_counters) {
  std::string line = "KV cache per rank: " + PerRank(memory.bytes_per_rank) + " bytes of pages (" +
                     Grouped(memory.pool_slots) + " slots a head, " + (layout.dtype == DType::kBF16 ? "bf16" : "f32") +
                     ")";
  if (with_counters) {
    std::vector<int64_t> counters;
    for (int64_t bytes : memory.bytes_per_rank) {
      counters.push_back(bytes / layout.page_bytes() * kCounterBytesPerPage);
    }
    line += ", " + PerRank(counters) + " of attention counters";
  }
  return line;
}

}  // namespace winnow
