#include "policies/slot_dots.h"

#include <cstring>

namespace winnow {
namespace {

using Lanes [[gnu::vector_size(32)]] = float;
constexpr int64_t kLanes = 8;

}  // namespace

SlotTiles::SlotTiles(std::span<const float> keys, int64_t head_dim) : head_dim_(head_dim) {
  const int64_t slots = int64_t(keys.size()) / head_dim;
  values_.resize(size_t((slots + kDotSlots - 1) / kDotSlots * kDotSlots * head_dim), 0.0f);
  for (int64_t slot = 0; slot < slots; ++slot) {
    float* to = values_.data() + slot / kDotSlots * kDotSlots * head_dim + slot % kDotSlots;
    const float* key = keys.data() + slot * head_dim;
    for (int64_t i = 0; i < head_dim; ++i) to[i * kDotSlots] = key[i];
  }
}

// Two vectors of slots by four rows: eight sums that do not wait for each other, which is what hides the latency of an
// addition.
void DotRows(const float* rows, const SlotTiles& tiles, int64_t first_slot, float* out) {
  const int64_t dims = tiles.head_dim(), padded = tiles.padded_slots();
  for (int64_t slot = first_slot; slot < padded; slot += kDotSlots) {
    const float* tile = tiles.tile(slot / kDotSlots);
    Lanes sums[kDotRows][2] = {};
    for (int64_t i = 0; i < dims; ++i) {
      Lanes left, right;
      std::memcpy(&left, tile + i * kDotSlots, sizeof(left));
      std::memcpy(&right, tile + i * kDotSlots + kLanes, sizeof(right));
      for (int64_t row = 0; row < kDotRows; ++row) {
        const float factor = rows[row * dims + i];
        sums[row][0] += factor * left;
        sums[row][1] += factor * right;
      }
    }
    for (int64_t row = 0; row < kDotRows; ++row) std::memcpy(out + row * padded + slot, sums[row], sizeof(sums[row]));
  }
}

}  // namespace winnow
