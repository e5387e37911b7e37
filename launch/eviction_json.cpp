#include "launch/eviction_json.h"

#include <nlohmann/json.hpp>
#include <string>

namespace winnow {

nlohmann::ordered_json SharedEvictionJson(const EvictionSettings& asked) {
  const auto chosen = [](const auto& choice) { return choice ? std::string(Name(*choice)) : std::string("policy"); };
  return {{"interval", asked.interval},           {"sink_tokens", asked.sink_tokens},
          {"recent_tokens", asked.recent_tokens}, {"protect_prompt", asked.protect_prompt},
          {"scope", chosen(asked.scope)},         {"allocation", chosen(asked.allocation)}};
}

}  // namespace winnow
