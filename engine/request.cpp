#include "engine/request.h"

#include "policies/eviction_policy.h"

namespace winnow {

Result<EvictionSettings> ResolveEviction(const EvictionSettings& asked) {
  WINNOW_ASSIGN_OR_RETURN(const auto policy, MakePolicy(asked.policy));
  EvictionSettings settings = asked;
  if (!policy->evicts()) {
    settings.budget = 0;
    return settings;
  }
  settings.scope = asked.scope.value_or(policy->scope());
  settings.recent_tokens = policy->RecentTokens(asked.budget, asked.recent_tokens);
  const auto refuse = [](const std::string& message) { return InvalidArgument(message); };
  if (asked.budget <= 0) {
    return refuse("policy " + asked.policy + " needs a budget: give --kv-budget, in tokens per KV head");
  }
  if (asked.interval <= 0) return refuse("--kv-interval: expected at least 1, found " + std::to_string(asked.interval));
  if (asked.sink_tokens < 0 || asked.recent_tokens < 0) {
    return refuse("--kv-sink-tokens and --kv-recent-tokens: expected 0 or more, found " +
                  std::to_string(asked.sink_tokens) + " and " + std::to_string(asked.recent_tokens));
  }
  if (asked.budget < asked.sink_tokens + settings.recent_tokens) {
    return refuse("--kv-budget " + std::to_string(asked.budget) + " is smaller than the protected " +
                  std::to_string(asked.sink_tokens) + " sink + " + std::to_string(settings.recent_tokens) +
                  " recent tokens");
  }
  return settings;
}

std::string Name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

}  // namespace winnow
