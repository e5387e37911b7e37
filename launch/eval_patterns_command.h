// `winnow eval patterns`: kinds of KV pairs, and what policies hold of each. Collective.
#pragma once

#include "base/status.h"
#include "dist/communicator.h"
#include "launch/eval_loss_options.h"

namespace winnow {

// arguments: what parsing them gave on this rank. The options are those of `winnow eval loss`.
Status RunEvalPatterns(const Status& arguments, EvalLossOptions options, Communicator& communicator);

}  // namespace winnow
