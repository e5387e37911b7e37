#include "launch/load_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launch/number_text.h"

namespace winnow {

nlohmann::ordered_json LoadJson(const RankLoad& load) {
  return {{"end_entries", load.end_entries},
          {"peak_entries", load.peak_entries},
          {"end_imbalance", Imbalance(load.end_entries)},
          {"peak_imbalance", Imbalance(load.peak_entries)}};
}

std::string LoadText(const RankLoad& load) {
  return fmt::format("{} at the end (imbalance {:.2f}), {} at most ({:.2f})", PerRank(load.end_entries),
                     Imbalance(load.end_entries), PerRank(load.peak_entries), Imbalance(load.peak_entries));
}

}  // namespace winnow
