// Where one slot's key and value lie in a page (layout: compute/kv_layout.h), and their conversion from and to float.
#pragma once

#include <cstring>

#include "base/check.h"
#include "compute/kv_layout.h"
#include "compute/tensor.h"
#include "compute/weight_blocks.h"

namespace winnow {

// One physical slot of the pool. `Index` functions count elements of the page's type.
class ReferenceSlot {
 public:
  ReferenceSlot(const Tensor& pages, const KvLayout& kv, int64_t physical_slot)
      : page_(pages.data() + physical_slot / kPageSlots * kv.page_bytes()), kv_(kv), slot_(physical_slot % kPageSlots) {
    WINNOW_CHECK(physical_slot >= 0 && (physical_slot / kPageSlots + 1) * kv.page_bytes() <= pages.bytes());
  }

  int64_t KeyIndex(int64_t dim) const { return (dim / 2 * kPageSlots + slot_) * 2 + dim % 2; }
  int64_t ValueIndex(int64_t dim) const { return kPageSlots * kv_.head_dim + slot_ * kv_.head_dim + dim; }

  float Read(int64_t index) const {
    if (kv_.dtype == DType::kBF16) return BFloat16ToFloat(At<uint16_t>(index));
    return At<float>(index);
  }
  // bf16 rounds to nearest even.
  void Write(int64_t index, float value) const {
    if (kv_.dtype == DType::kBF16) {
      At<uint16_t>(index) = FloatToBFloat16(value);
    } else {
      At<float>(index) = value;
    }
  }
  // Copies the bits of one element to the same place of another slot.
  void CopyTo(const ReferenceSlot& to, int64_t from_index, int64_t to_index) const {
    const int64_t size = BlockBytes(kv_.dtype);
    std::memmove(to.page_ + to_index * size, page_ + from_index * size, size_t(size));
  }

 private:
  template <class T>
  T& At(int64_t index) const {
    return reinterpret_cast<T*>(page_)[index];
  }

  std::byte* page_;
  const KvLayout& kv_;
  int64_t slot_;
};

}  // namespace winnow
