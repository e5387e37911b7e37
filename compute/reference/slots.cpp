#include "compute/reference/kv_page.h"
#include "compute/reference/reference_backend.h"

namespace winnow {

void ReferenceBackend::DoReadSlots(const SlotArgs& args) {
  const int64_t head_dim = args.kv.head_dim;
  for (int64_t i = 0; i < args.physical_slots.dim(0); ++i) {
    const ReferenceSlot slot(args.pages, args.kv, args.physical_slots.as<int32_t>()[i]);
    for (int64_t dim = 0; dim < head_dim; ++dim) {
      if (args.keys.data() != nullptr) args.keys.as<float>()[i * head_dim + dim] = slot.Read(slot.KeyIndex(dim));
      if (args.values.data() != nullptr) args.values.as<float>()[i * head_dim + dim] = slot.Read(slot.ValueIndex(dim));
    }
  }
}

void ReferenceBackend::DoWriteSlots(const SlotArgs& args) {
  const int64_t head_dim = args.kv.head_dim;
  for (int64_t i = 0; i < args.physical_slots.dim(0); ++i) {
    const int32_t physical_slot = args.physical_slots.as<int32_t>()[i];
    const ReferenceSlot slot(args.pages, args.kv, physical_slot);
    for (int64_t dim = 0; dim < head_dim; ++dim) {
      slot.Write(slot.KeyIndex(dim), args.keys.as<float>()[i * head_dim + dim]);
      slot.Write(slot.ValueIndex(dim), args.values.as<float>()[i * head_dim + dim]);
    }
    if (args.mass.data() == nullptr) continue;
    const bool is_given = args.slot_mass.data() != nullptr;
    args.mass.as<int64_t>()[physical_slot] = is_given ? args.slot_mass.as<int64_t>()[i] : 0;
  }
}

}  // namespace winnow
