// Where elements lie in KV pages (compute/kv_layout.h), rotation into them, and moves between slots.
#pragma once

#include <cstdint>

#include "compute/backend.h"

namespace winnow::cpu {

// Rows [begin, end) of RopeAppend.
void RopeAppendRows(const RopeAppendArgs& args, int64_t begin, int64_t end);

// All moves in order, for dimensions [dim_begin, dim_end), even numbers.
void CompactDimensions(const CompactArgs& args, int64_t dim_begin, int64_t dim_end);

// All moves in order, for the mass, which must be given.
void CompactMass(const CompactArgs& args);

// Slots [begin, end) of the list.
void ReadSlotRange(const SlotArgs& args, int64_t begin, int64_t end);
void WriteSlotRange(const SlotArgs& args, int64_t begin, int64_t end);

}  // namespace winnow::cpu
