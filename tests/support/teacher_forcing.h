// Logits of every position of recorded token sequences, for comparison with other engines and backends.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/rank_engine.h"

namespace winnow {

// Feeds each sequence from an empty full cache, in chunks of at most `chunk` tokens. on_logits gets, in order, the
// sequence's index, the first position of the chunk and the logits [tokens of the chunk][this rank's vocabulary rows].
// The engine's pool must hold the longest sequence. Collective.
Status RunTeacherForcing(
    RankEngine& engine, std::span<const std::vector<int32_t>> sequences, int64_t chunk,
    const std::function<void(size_t sequence, int64_t position, std::span<const float> logits)>& on_logits);

}  // namespace winnow
