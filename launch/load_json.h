// How results say what every rank had to attend to. Any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/rank_load.h"

namespace winnow {

// {"end_entries": [...], "peak_entries": [...], "end_imbalance": ..., "peak_imbalance": ...}
nlohmann::ordered_json LoadJson(const RankLoad& load);

// "1,024 + 512 at the end (imbalance 1.33), 2,048 + 1,024 at most (1.33)"
std::string LoadText(const RankLoad& load);

}  // namespace winnow
