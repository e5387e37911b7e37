#include "engine/pooled_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "dist/exact_select.h"

namespace winnow {
namespace {

// Order of equal scores: 32 bits of position, 24 of the head's place turned around.
constexpr int kHeadBits = 24, kOrderBits = 32 + kHeadBits;
// Above every float's key: entries of the floor come first, and compete with nobody.
constexpr uint32_t kFloorKey = std::numeric_limits<uint32_t>::max();

std::vector<SelectKey> KeysOf(const PooledHead& head, int64_t num_kv_heads) {
  const int64_t place = head.layer * num_kv_heads + head.global_head;
  WINNOW_CHECK(place < int64_t(1) << kHeadBits);
  const uint64_t turned = (uint64_t(1) << kHeadBits) - 1 - uint64_t(place);
  std::vector<SelectKey> keys;
  for (size_t slot = 0; slot < head.scores.size(); ++slot) {
    if (head.is_protected[slot]) continue;
    WINNOW_CHECK(!std::isnan(head.scores[slot]));
    keys.push_back({OrderedKey(head.scores[slot]), uint64_t(head.positions[slot]) << kHeadBits | turned});
  }
  const size_t floor = std::min(keys.size(), size_t(head.floor));
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::nth_element(order.begin(), order.begin() + int64_t(floor), order.end(),
                   [&](size_t a, size_t b) { return keys[a] > keys[b]; });
  for (size_t i = 0; i < floor; ++i) keys[order[i]].score = kFloorKey;
  return keys;
}

std::vector<int32_t> KeptOf(const PooledHead& head, std::span<const SelectKey> keys, const SelectKey& threshold) {
  std::vector<int32_t> kept;
  size_t next = 0;
  for (size_t slot = 0; slot < head.scores.size(); ++slot) {
    if (head.is_protected[slot] || keys[next++] >= threshold) kept.push_back(int32_t(slot));
  }
  return kept;
}

}  // namespace

std::vector<std::vector<std::vector<int32_t>>> SelectPooled(Communicator& communicator, std::span<const Pool> pools,
                                                            bool is_counted) {
  std::vector<std::vector<SelectKey>> keys(pools.size());
  std::vector<SelectProblem> problems;
  for (size_t p = 0; p < pools.size(); ++p) {
    WINNOW_CHECK(pools[p].candidates_kept >= 0);
    for (const PooledHead& head : pools[p].heads) {
      const auto of_head = KeysOf(head, pools[p].num_kv_heads);
      keys[p].insert(keys[p].end(), of_head.begin(), of_head.end());
    }
    const std::span<const SelectKey> counted = is_counted ? keys[p] : std::span<const SelectKey>();
    problems.push_back({.keys = counted, .target = pools[p].candidates_kept, .order_bits = kOrderBits});
  }
  const std::vector<SelectKey> thresholds = ExactSelect(communicator, problems);

  std::vector<std::vector<std::vector<int32_t>>> kept(pools.size());
  for (size_t p = 0; p < pools.size(); ++p) {
    std::span<const SelectKey> left = keys[p];
    for (const PooledHead& head : pools[p].heads) {
      const size_t count = size_t(std::count(head.is_protected.begin(), head.is_protected.end(), 0));
      // A target of 0 keeps no candidate; ExactSelect has no threshold above all keys.
      if (pools[p].candidates_kept == 0) {
        kept[p].push_back(KeptOf(head, std::vector<SelectKey>(count), {kFloorKey, ~uint64_t(0)}));
      } else {
        kept[p].push_back(KeptOf(head, left.first(count), thresholds[p]));
      }
      left = left.subspan(count);
    }
  }
  return kept;
}

}  // namespace winnow
