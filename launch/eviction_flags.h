// The flags of eviction that sub-commands share: everything but the policy and its budget. Parsing touches nothing but
// the arguments.
#pragma once

#include "engine/request.h"

namespace CLI {
class App;
}

namespace winnow {

// Declares --kv-interval, --kv-sink-tokens, --kv-recent-tokens, --kv-protect-prompt, --kv-scope and --kv-allocation;
// `settings` must live until parsing is over.
void AddEvictionFlags(CLI::App& command, EvictionSettings* settings);

}  // namespace winnow
