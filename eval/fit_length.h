// Finding how much text fits. Pure function of `count`; any thread.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"

namespace winnow {

// The largest number of units in [least, most] whose tokens are at most `room`; `least` if none is. count(units) gives
// the tokens, which do not fall when units rise. Errors of `count` are passed on.
Result<int64_t> LargestThatFits(int64_t least, int64_t most, int64_t room,
                                const std::function<Result<int64_t>(int64_t units)>& count);

}  // namespace winnow
