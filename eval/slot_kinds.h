// Which kind of attention a KV pair meets in the rest of a known text. ForesightKV (arXiv 2602.03203, introduction)
// shows three kinds by example: global (attended to for ever), local (by what follows at once) and semantic-dependent
// (left alone, then attended to again where the text comes back to it). It gives no thresholds; these are ours.
//
// Queries come in blocks of `interval`; a block attends to a pair if it pays it an equal share or more: 1 / (tokens up
// to the block's end), mean over its queries and the query heads of the group. Near are the block that the pair stands
// in and the next one, far are all full ones after these, that is from interval + 1 tokens on.
//   global    half of the far blocks or more attend to it
//   semantic  at least one far block does, fewer than half
//   local     no far block does, a near one does
//   idle      none does
// A pair with fewer than 4 far blocks has no kind: what comes after it is too short to tell. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/future_attention.h"

namespace winnow {

enum class SlotKind : uint8_t { kGlobal, kSemantic, kLocal, kIdle, kNone };
inline constexpr int64_t kNumSlotKinds = 4;  // without kNone
inline constexpr std::array<const char*, 4> kSlotKindNames = {"global", "semantic", "local", "idle"};

inline constexpr int64_t kNearBlocks = 2, kLeastFarBlocks = 4;

// [layer * local KV heads + local head][token] of a recording whose first block begins at token `interval`: the first
// `interval` queries, which see little else than themselves, attend to nothing.
std::vector<std::vector<SlotKind>> SlotKindsOf(const BlockAttention& attention);

}  // namespace winnow
