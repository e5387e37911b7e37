// `winnow eval loss`: what eviction policies cost on recorded texts, beside the full cache. Engine thread; collective.
#pragma once

#include "base/status.h"
#include "dist/communicator.h"
#include "launch/eval_loss_options.h"

namespace winnow {

// `arguments`: what parsing them gave on this rank. Prints on rank 0; the Status is the same on all ranks.
Status RunEvalLoss(const Status& arguments, EvalLossOptions options, Communicator& communicator);

}  // namespace winnow
