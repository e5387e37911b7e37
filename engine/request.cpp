#include "engine/request.h"

#include <algorithm>
#include <charconv>
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

// The shortest text that reads back as the same number.
std::string Shortest(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

// What the user asked for, as messages repeat it.
std::string AskedBudget(const EvictionSettings& settings) {
  const std::string resolved = " (" + std::to_string(settings.budget) + " tokens per KV head)";
  if (settings.budget_ratio) return "--kv-ratio " + Shortest(*settings.budget_ratio) + resolved;
  if (settings.budget_bytes) return "--kv-budget-bytes " + std::to_string(*settings.budget_bytes) + resolved;
  return "--kv-budget " + std::to_string(settings.budget);
}

// The numbers as they were asked for, also where the policy has no use for them: a number that means nothing is a
// mistake, not a wish.
Status CheckNumbers(const EvictionSettings& asked) {
  WINNOW_RETURN_IF_ERROR(CheckTokenCount("--kv-budget", asked.budget, 0));
  WINNOW_RETURN_IF_ERROR(CheckTokenCount("--kv-interval", asked.interval, 1));
  WINNOW_RETURN_IF_ERROR(CheckTokenCount("--kv-sink-tokens", asked.sink_tokens, 0));
  WINNOW_RETURN_IF_ERROR(CheckTokenCount("--kv-recent-tokens", asked.recent_tokens, 0));
  if (asked.budget_ratio && asked.budget_bytes) {
    return InvalidArgument("--kv-ratio and --kv-budget-bytes: expected one budget, found two");
  }
  // Written so that NaN fails too.
  if (asked.budget_ratio && !(*asked.budget_ratio > 0 && *asked.budget_ratio <= 1)) {
    return InvalidArgument("--kv-ratio: expected more than 0 and at most 1, found " + Shortest(*asked.budget_ratio));
  }
  if (asked.budget_bytes && *asked.budget_bytes < 1) {
    return InvalidArgument("--kv-budget-bytes: expected 1 or more, found " + std::to_string(*asked.budget_bytes));
  }
  return OkStatus();
}

// Heads that keep the same tokens.
int64_t HeadsPerSet(EvictionScope scope, const KvShape& shape) {
  switch (scope) {
    case EvictionScope::kHead:
      return 1;
    case EvictionScope::kLayer:
      return shape.num_kv_heads;
    case EvictionScope::kSequence:
      break;
  }
  return shape.num_heads();
}

// Turns a ratio or bytes into tokens per head.
Status ResolveBudget(const EvictionContext& context, EvictionSettings* settings) {
  if (!settings->budget_ratio && !settings->budget_bytes) return OkStatus();
  const int64_t entries = settings->budget_bytes
                              ? EntriesInBytes(*settings->budget_bytes, context.shape)
                              : EntriesInRatio(*settings->budget_ratio, context.prompt_tokens, context.shape);
  const KvBudget budget = DivideEntries(entries, context.shape, HeadsPerSet(*settings->scope, context.shape));
  settings->budget = budget.tokens;
  settings->larger_heads = budget.larger_heads;
  settings->num_kv_heads = budget.num_kv_heads;
  if (budget.tokens > 0) return OkStatus();
  const std::string heads = std::to_string(context.shape.num_heads());
  return InvalidArgument(AskedBudget(*settings) + " is less than one token for each of the model's " + heads +
                         " KV heads: expected room for " + heads + " entries of " +
                         std::to_string(context.shape.entry_bytes) + " bytes or more, found room for " +
                         std::to_string(entries));
}

}  // namespace

Result<EvictionSettings> ResolveEviction(const EvictionSettings& asked, const EvictionContext& context) {
  WINNOW_ASSIGN_OR_RETURN(const auto policy, MakePolicy(asked.policy));
  WINNOW_RETURN_IF_ERROR(CheckNumbers(asked));
  EvictionSettings settings = asked;
  if (!policy->evicts()) {
    settings.budget = settings.larger_heads = 0;
    return settings;
  }
  settings.scope = asked.scope.value_or(policy->scope());
  settings.timing = policy->timing();
  const auto refuse = [](const std::string& message) { return InvalidArgument(message); };
  if (policy->observations().future && !context.has_future) {
    return refuse("policy " + asked.policy +
                  " looks at the attention of what is still to come: it needs a text that is known to its end, as "
                  "`winnow eval loss` has");
  }
  if (asked.budget == 0 && !asked.budget_ratio && !asked.budget_bytes) {
    return refuse("policy " + asked.policy +
                  " needs a budget: give --kv-budget (tokens per KV head), --kv-ratio or --kv-budget-bytes");
  }
  WINNOW_RETURN_IF_ERROR(ResolveBudget(context, &settings));
  if (settings.replay_prompt.chunk_tokens < 1) {
    return refuse("a context is repeated in chunks of 1 or more tokens, found " +
                  std::to_string(settings.replay_prompt.chunk_tokens));
  }
  const int64_t most = std::min<int64_t>(context.max_tokens, std::numeric_limits<int32_t>::max());
  if (settings.budget > most) {
    return refuse(AskedBudget(settings) + ": a text has at most " + std::to_string(most) +
                  " tokens here, so that nothing could ever be evicted; give a smaller budget, or --kv-eviction full");
  }
  if (!policy->SupportsScope(*settings.scope)) {
    return refuse("--kv-scope " + std::string(Name(*settings.scope)) + " is not defined for policy " + asked.policy +
                  ", whose own is " + std::string(Name(policy->scope())));
  }
  if (policy->positions() == kCompactedPositions && context.pinned_slots > 0) {
    return refuse("policy " + asked.policy + " moves positions: the " + std::to_string(context.pinned_slots) +
                  " pinned slots, whose keys are rotated at theirs, cannot be given to it");
  }
  settings.allocation = asked.allocation.value_or(policy->allocation());
  settings.even_heads = *settings.allocation == BudgetAllocation::kHead && !policy->HasLayerBudgets();
  if (*settings.allocation != BudgetAllocation::kHead && *settings.scope != EvictionScope::kHead) {
    return refuse("--kv-allocation " + std::string(Name(*settings.allocation)) + " lets heads compete, --kv-scope " +
                  std::string(Name(*settings.scope)) + " makes them keep the same tokens: give one of them");
  }
  if (*settings.allocation == BudgetAllocation::kSequence && policy->HasLayerBudgets()) {
    return refuse("policy " + asked.policy +
                  " gives every layer its own budget: --kv-allocation sequence would undo it");
  }
  settings.recent_tokens = policy->RecentTokens(settings.budget, asked.recent_tokens);
  const Observations observations = policy->observations();
  if (observations.has_window() && observations.Window(settings.recent_tokens) == 0) {
    return refuse("policy " + asked.policy + " lets the recent tokens vote: give --kv-recent-tokens 1 or more");
  }
  const bool by_prompt = asked.protect_prompt && context.prompt_tokens > asked.sink_tokens;
  const int64_t first_tokens = by_prompt ? context.prompt_tokens : asked.sink_tokens;
  if (settings.budget < first_tokens + settings.recent_tokens + context.pinned_slots) {
    return refuse(AskedBudget(settings) + " is smaller than the protected " + std::to_string(first_tokens) +
                  (by_prompt ? " prompt + " : " sink + ") + std::to_string(settings.recent_tokens) + " recent tokens" +
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
