#include "engine/request.h"

#include <limits>

#include "policies/eviction_policy.h"

namespace winnow {
namespace {

// Positions are 32-bit, so no count of tokens is larger, and sums of two cannot overflow.
Status CheckTokenCount(const char* flag, int64_t count, int64_t least) {
  if (count >= least && count <= std::numeric_limits<int32_t>::max()) return OkStatus();
  return InvalidArgument(std::string(flag) + ": expected " + std::to_string(least) + " to " +
                         std::to_string(std::numeric_limits<int32_t>::max()) + ", found " + std::to_string(count));
}

}  // namespace

Result<EvictionSettings> ResolveEviction(const EvictionSettings& asked) {
  WINNOW_ASSIGN_OR_RETURN(const auto policy, MakePolicy(asked.policy));
  // Also where the policy has no use for them: a number that means nothing is a mistake, not a wish.
  WINNOW_RETURN_IF_ERROR(CheckTokenCount("--kv-budget", asked.budget, 0));
  WINNOW_RETURN_IF_ERROR(CheckTokenCount("--kv-interval", asked.interval, 1));
  WINNOW_RETURN_IF_ERROR(CheckTokenCount("--kv-sink-tokens", asked.sink_tokens, 0));
  WINNOW_RETURN_IF_ERROR(CheckTokenCount("--kv-recent-tokens", asked.recent_tokens, 0));
  EvictionSettings settings = asked;
  if (!policy->evicts()) {
    settings.budget = 0;
    return settings;
  }
  settings.scope = asked.scope.value_or(policy->scope());
  settings.recent_tokens = policy->RecentTokens(asked.budget, asked.recent_tokens);
  const auto refuse = [](const std::string& message) { return InvalidArgument(message); };
  if (asked.budget == 0) {
    return refuse("policy " + asked.policy + " needs a budget: give --kv-budget, in tokens per KV head");
  }
  if (policy->observation() == Observation::kWindowMass && settings.recent_tokens == 0) {
    return refuse("policy " + asked.policy + " lets the recent tokens vote: give --kv-recent-tokens 1 or more");
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
