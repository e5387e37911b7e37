#include "engine/rank_load.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace winnow {
namespace {

void Add(const std::vector<int64_t>& more, std::vector<int64_t>* sum) {
  if (sum->empty()) sum->resize(more.size(), 0);
  WINNOW_CHECK(sum->size() == more.size());
  for (size_t rank = 0; rank < more.size(); ++rank) (*sum)[rank] += more[rank];
}

}  // namespace

double Imbalance(std::span<const int64_t> entries) {
  const int64_t sum = std::accumulate(entries.begin(), entries.end(), int64_t(0));
  if (sum == 0) return 1;
  return double(*std::max_element(entries.begin(), entries.end())) * double(entries.size()) / double(sum);
}

void AddLoad(const RankLoad& more, RankLoad* sum) {
  Add(more.end_entries, &sum->end_entries);
  Add(more.peak_entries, &sum->peak_entries);
}

}  // namespace winnow
