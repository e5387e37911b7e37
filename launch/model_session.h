// Opening a model on all ranks of a job, the same way for every sub-command: each step is agreed on, so that one rank's
// failure is everybody's verdict, with rank and host named. Engine thread; collective.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dist/communicator.h"
#include "engine/rank_engine.h"
#include "launch/engine_flags.h"
#include "model/checkpoint.h"

namespace winnow {

// Whether all ranks have the value of rank 0. Collective: an all-gather of 8 bytes.
bool SameAsFirstRank(Communicator& communicator, uint64_t mine, uint64_t* first);

// One verdict for all ranks. The file that a rank cannot read is named with its rank and host; a wrong argument is
// wrong everywhere, so that its message goes without.
Status AgreeOnVerdict(Communicator& communicator, const Status& mine);

// The model that the flags name, checked on all ranks: readable, known, the same model everywhere, shardable over the
// ranks, or over groups of tensor_parallel of them. Before any weight is read.
Result<std::unique_ptr<const Checkpoint>> OpenModel(const EngineFlags& flags, Communicator& communicator);
Result<std::unique_ptr<const Checkpoint>> OpenModel(const EngineFlags& flags, Communicator& world, int tensor_parallel);

// This rank's shard, with a progress bar on rank 0. group: the ranks that share a model, all of them or a part of the
// world, whose verdict counts.
Result<std::unique_ptr<RankEngine>> LoadEngine(const Checkpoint& model, const EngineOptions& options,
                                               Communicator& communicator);
Result<std::unique_ptr<RankEngine>> LoadEngine(const Checkpoint& model, const EngineOptions& options,
                                               Communicator& group, Communicator& world);

}  // namespace winnow
