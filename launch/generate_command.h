// `winnow generate`: continues prompts under a KV budget, on all ranks of the job. Collective; called on every rank.
#pragma once

#include "base/status.h"
#include "dist/communicator.h"
#include "launch/generate_options.h"

namespace winnow {

// Text goes to standard output as it comes (rank 0); the table, notes and progress too, or to standard error with
// --json. The Status is the same on all ranks.
// `arguments`: what parsing them said on this rank. The ranks agree on it here, since one that ended alone would take
// rank 0 with it before its message is out.
Status RunGenerate(const Status& arguments, const GenerateOptions& options, Communicator& communicator);

}  // namespace winnow
