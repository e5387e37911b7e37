// Dot products of vectors with all keys of a head, 16 slots at a time: each sum is one fma after the other over the
// dimensions in order, so that its bits are those of a plain loop. For policies that compare slots with each other. Any
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

constexpr int64_t kDotSlots = 16;  // slots of a tile
constexpr int64_t kDotRows = 4;    // vectors that share the reads of a tile

// Keys in tiles of 16 slots, [tiles][head_dim][16]; slots beyond the last hold zeros.
class SlotTiles {
 public:
  // keys [slots][head_dim].
  SlotTiles(std::span<const float> keys, int64_t head_dim);

  int64_t head_dim() const { return head_dim_; }
  int64_t padded_slots() const { return int64_t(values_.size()) / head_dim_; }  // a multiple of 16
  const float* tile(int64_t index) const { return values_.data() + index * head_dim_ * kDotSlots; }

 private:
  int64_t head_dim_;
  std::vector<float> values_;
};

// out[row * padded_slots + slot] = rows[row] . key[slot], for 4 rows [4][head_dim] and all slots from first_slot (a
// multiple of 16) to padded_slots; what lies before it in `out` [4][padded_slots] is left alone.
void DotRows(const float* rows, const SlotTiles& tiles, int64_t first_slot, float* out);

}  // namespace winnow
