#include "eval/slot_kinds.h"

#include <algorithm>

#include "base/check.h"

namespace winnow {
namespace {

// Of one pair, from what each full block pays to it.
class Sightings {
 public:
  void Add(bool is_near, bool attends) {
    if (is_near) {
      is_seen_near_ |= attends;
      return;
    }
    ++far_blocks_;
    far_sightings_ += attends;
  }

  SlotKind Kind() const {
    if (far_blocks_ < kLeastFarBlocks) return SlotKind::kNone;
    if (2 * far_sightings_ >= far_blocks_) return SlotKind::kGlobal;
    if (far_sightings_ > 0) return SlotKind::kSemantic;
    return is_seen_near_ ? SlotKind::kLocal : SlotKind::kIdle;
  }

 private:
  int64_t far_blocks_ = 0, far_sightings_ = 0;
  bool is_seen_near_ = false;
};

}  // namespace

std::vector<std::vector<SlotKind>> SlotKindsOf(const BlockAttention& attention) {
  const int64_t interval = attention.blocks.interval, num_tokens = int64_t(attention.tokens.size());
  WINNOW_CHECK(attention.blocks.begin == interval);
  const int64_t full_blocks = num_tokens / interval;  // of the text; the first of them is not recorded
  const size_t num_heads = attention.mean.empty() ? 0 : attention.mean[0].size();
  std::vector<std::vector<SlotKind>> kinds(num_heads);
  for (size_t head = 0; head < num_heads; ++head) {
    for (int64_t token = 0; token < num_tokens; ++token) {
      const int64_t own_block = token / interval;
      Sightings sightings;
      for (int64_t block = std::max<int64_t>(own_block, 1); block < full_blocks; ++block) {
        const float mean = attention.mean[size_t(block - 1)][head][size_t(token)];
        sightings.Add(block < own_block + kNearBlocks, mean * float((block + 1) * interval) >= 1);
      }
      kinds[head].push_back(sightings.Kind());
    }
  }
  return kinds;
}

}  // namespace winnow
