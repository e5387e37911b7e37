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

Result<EvictionSettings> ResolveEviction(const EvictionSettings& asked, const EvictionContext& context) {
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
  settings.timing = policy->timing();
  settings.recent_tokens = policy->RecentTokens(asked.budget, asked.recent_tokens);
  const auto refuse = [](const std::string& message) { return InvalidArgument(message); };
  if (asked.budget == 0) {
    return refuse("policy " + asked.policy + " needs a budget: give --kv-budget, in tokens per KV head");
  }
  if (!policy->SupportsScope(*settings.scope)) {
    return refuse("policy " + asked.policy + " scores every head by itself: --kv-scope " +
                  std::string(Name(*settings.scope)) + " is not defined for it");
  }
  if (policy->observations().mass == ObservedMass::kWindow && settings.recent_tokens == 0) {
    return refuse("policy " + asked.policy + " lets the recent tokens vote: give --kv-recent-tokens 1 or more");
  }
  const bool by_prompt = asked.protect_prompt && context.prompt_tokens > asked.sink_tokens;
  const int64_t first_tokens = by_prompt ? context.prompt_tokens : asked.sink_tokens;
  if (asked.budget < first_tokens + settings.recent_tokens + context.pinned_slots) {
    return refuse("--kv-budget " + std::to_string(asked.budget) + " is smaller than the protected " +
                  std::to_string(first_tokens) + (by_prompt ? " prompt + " : " sink + ") +
                  std::to_string(settings.recent_tokens) + " recent tokens" +
                  (context.pinned_slots > 0 ? " + " + std::to_string(context.pinned_slots) + " pinned slots" : ""));
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
