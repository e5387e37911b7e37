// How many KV pairs of a text are of which kind (eval/slot_kinds.h), per layer and head, and which share of each kind
// every policy holds. Every rank drives its own engine with the same plans. Collective; engine thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "engine/rank_engine.h"
#include "eval/loss_study.h"
#include "eval/slot_kinds.h"

namespace winnow {

// Pairs of each kind, in the order of SlotKind.
using KindCounts = std::array<int64_t, kNumSlotKinds>;

struct PatternCase {
  // [layer] right after an eviction, summed over all evictions and the layer's KV heads of all ranks: pairs that a full
  // cache would hold, and those that are held.
  std::vector<KindCounts> present, held;
  int64_t evictions = 0;

  void Add(const PatternCase& other);
};

struct PatternScore {
  std::vector<KindCounts> heads;  // [layer * KV heads of the model + head]
  std::vector<PatternCase> cases;
};

// cases: as RunLossStudy takes them; the blocks are `interval` long. The pool: LossStudySlots, with mass. A text of
// fewer tokens than LeastPatternTokens has no pair of any kind.
Result<PatternScore> RunPatternStudy(RankEngine& engine, Communicator& communicator, const EvalText& text,
                                     const std::vector<EvictionSettings>& cases, int64_t interval, uint64_t seed,
                                     const std::function<void(int64_t tokens_done)>& progress);

// What `progress` counts up to.
int64_t PatternStudyTokens(const EvalText& text, const std::vector<EvictionSettings>& cases);

// With as many, the last of which is only predicted, the first `interval` tokens have a kind.
inline int64_t LeastPatternTokens(int64_t interval) {
  return (kNearBlocks + kLeastFarBlocks) * interval + 1;
}

}  // namespace winnow
