#include "policies/slot_dots.h"

#include <cstring>

#include "policies/row_products.h"

namespace winnow {
SlotTiles::SlotTiles(std::span<const float> keys, int64_t head_dim) : head_dim_(head_dim) {
  const int64_t slots = int64_t(keys.size()) / head_dim;
  values_.resize(size_t((slots + kDotSlots - 1) / kDotSlots * kDotSlots * head_dim), 0.0f);
  for (int64_t slot = 0; slot < slots; ++slot) {
    float* to = values_.data() + slot / kDotSlots * kDotSlots * head_dim + slot % kDotSlots;
    const float* key = keys.data() + slot * head_dim;
    for (int64_t i = 0; i < head_dim; ++i) to[i * kDotSlots] = key[i];
  }
}

void DotRows(const float* rows, const SlotTiles& tiles, int64_t first_slot, float* out) {
  static_assert(kDotRows == kProductRows && kDotSlots == kProductLanes);
  const int64_t dims = tiles.head_dim(), padded = tiles.padded_slots();
  const ProductStrides strides{.row_stride = dims, .factor_stride = 1, .value_stride = kProductLanes};
  for (int64_t slot = first_slot; slot < padded; slot += kDotSlots) {
    float products[kProductRows][kProductLanes];
    RowProducts(rows, tiles.tile(slot / kDotSlots), strides, dims, products);
    for (int64_t row = 0; row < kDotRows; ++row) {
      std::memcpy(out + row * padded + slot, products[row], sizeof(products[row]));
    }
  }
}

}  // namespace winnow
