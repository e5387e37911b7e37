// How evenly the ranks share a sequence's cache. Each rank attends to the slots it holds, and the all-reduce behind
// attention waits for the one that holds most: what is above the mean is idle time of the others. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

// [rank] slots held over layers and KV heads, pinned ones included.
struct RankLoad {
  std::vector<int64_t> end_entries;   // at the end
  std::vector<int64_t> peak_entries;  // the most at any time, each rank's own
};

// The most over the mean: 1 if all hold the same (or nothing), the number of ranks if one holds everything.
double Imbalance(std::span<const int64_t> entries);

// sum += more, rank by rank; an empty sum takes as many ranks as there are.
void AddLoad(const RankLoad& more, RankLoad* sum);

}  // namespace winnow
