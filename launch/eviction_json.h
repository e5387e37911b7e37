// How results say what was asked of every policy alike. Any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/request.h"

namespace winnow {

// interval, sink_tokens, recent_tokens, protect_prompt, scope and allocation, the last two "policy" where each policy
// has its own.
nlohmann::ordered_json SharedEvictionJson(const EvictionSettings& asked);

}  // namespace winnow
