// The loop of every rank but the leader's: receive a plan, execute it, until the plan says stop. Engine thread;
// collective.
#pragma once

#include "base/status.h"
#include "dist/communicator.h"
#include "engine/model_runner.h"

namespace winnow {

// The first failure of ModelRunner::Execute, after which the group cannot go on.
Status RunWorker(ModelRunner& runner, Communicator& communicator);

}  // namespace winnow
