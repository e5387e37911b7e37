// For commands in which every rank takes some of the arguments from its own command line.
#pragma once

#include <string>

#include "base/status.h"
#include "dist/communicator.h"

namespace winnow {

// InvalidArgument on a rank whose `asked` (flags and values that all ranks must share) is not rank 0's. Collective; the
// verdict is each rank's own: see AgreeOnVerdict.
Status CheckSameArguments(Communicator& communicator, const std::string& asked);

}  // namespace winnow
