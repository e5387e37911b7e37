// What a user asks for, resolved to numbers: the same on every rank, and enough to compute the answer again (E4).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "kv/budget.h"
#include "model/sampler.h"
#include "policies/eviction_policy.h"

namespace winnow {

// What a model is told to repeat its context by, for policies that look at such a replay (engine/context_replay.h).
struct ReplayPrompt {
  int64_t chunk_tokens = 2048;      // of the context, repeated at a time
  std::vector<int32_t> first = {};  // before the first chunk; may be empty
  std::vector<int32_t> next = {};   // before every other one, followed by the end of the chunk before

  bool operator==(const ReplayPrompt&) const = default;
};

// A policy and its budget, in tokens per KV head. When evictions fall due: engine/eviction_schedule.h.
struct EvictionSettings {
  std::string policy = "full";
  int64_t budget = 0;  // 0: none (policy full); of a total that does not divide: what every head keeps at least
  int64_t interval = 128;
  int64_t sink_tokens = 4;
  int64_t recent_tokens = 32;
  bool protect_prompt = false;  // the whole prompt stays, as sinks do
  std::optional<EvictionScope> scope =
      std::nullopt;  // none: the policy's own; resolved settings of an evicting policy have one
  // Likewise; anything but head needs the scope head.
  std::optional<BudgetAllocation> allocation = std::nullopt;
  bool even_heads = true;  // once resolved: no head keeps more than one token more than another
  EvictionTiming timing = EvictionTiming::kChunked;  // the policy's own, once resolved
  // How the budget was asked for, if not in tokens; at most one of them. Resolved once, they only say where the numbers
  // of the budget came from.
  std::optional<double> budget_ratio = std::nullopt;   // of the entries that a full cache of the prompt holds
  std::optional<int64_t> budget_bytes = std::nullopt;  // keys and values of the sequence, over all ranks
  // What a ratio or bytes leave over: the first heads in (layer, KV head of the model) order keep one token more.
  int64_t larger_heads = 0;
  int64_t num_kv_heads = 0;         // of a layer of the whole model; with larger_heads
  ReplayPrompt replay_prompt = {};  // of policies that observe a replay; the front has its words

  KvBudget head_budgets() const {
    return {.tokens = budget, .larger_heads = larger_heads, .num_kv_heads = num_kv_heads};
  }
  bool evicts() const { return budget > 0; }
  int64_t Trigger() const { return budget + interval; }  // slots of a head at which an eviction is due (chunked)
};

// What the numbers of a budget are checked against.
struct EvictionContext {
  int64_t prompt_tokens = 0;
  int64_t pinned_slots = 0;                                  // in all
  int64_t max_tokens = std::numeric_limits<int32_t>::max();  // of prompt and answer
  KvShape shape = {};                                        // of the model's cache; needed for a ratio or bytes
  bool has_future = false;  // the text is known to its end, and what it attends to will be recorded first
};

// Checks the numbers and the policy's name, turns a ratio or bytes into tokens per head, and resolves a policy that
// never evicts to budget 0. Resolved settings resolve to themselves. InvalidArgument.
Result<EvictionSettings> ResolveEviction(const EvictionSettings& asked, const EvictionContext& context);

// Slots that belong to no text token, with their keys and values as they are stored: learned or restored ones. They
// follow the text's first `after_tokens` tokens (1 or more), own positions as tokens do, are never evicted, and count
// against the budget, not in what is reported as kept.
struct PinnedBlock {
  int64_t after_tokens = 0;
  int64_t num_slots = 0;
  std::vector<float> keys, values;  // [layers][KV heads of the model][num_slots][head_dim], keys rotated
};

struct ResumePoint;

struct Request {
  int64_t id = 0;  // position in the run; names nothing random
  std::vector<int32_t> prompt;
  // The first tokens of `prompt` that were the prompt when the answer began; what follows is a replayed part of the
  // answer (E4). 0: all of them.
  int64_t original_prompt_tokens = 0;
  int64_t max_tokens = 0;
  std::vector<int32_t> stop_token_ids;  // generation ends after one of these
  SamplingParams sampling;
  int64_t choice_index = 0;
  EvictionSettings eviction;
  std::vector<PinnedBlock> pinned;  // after_tokens ascending
  // Where to go on (engine/resume_point.h): the first cache.tokens_seen tokens of `prompt`, not all of them, are in it.
  // Null: from the first token. Shared by all copies of a request, since it may be large.
  std::shared_ptr<const ResumePoint> resume;
  bool save_cache = false;  // the report of the finished sequence carries a resume point
  // Which of the runners' recordings (ModelRunner::Record) of this very text its policy looks at, if that observes the
  // future.
  int64_t recording = 0;

  int64_t prompt_tokens() const { return original_prompt_tokens > 0 ? original_prompt_tokens : int64_t(prompt.size()); }
};

enum class FinishReason { kStop, kLength, kError };
// "stop", "length", "error".
std::string Name(FinishReason reason);

}  // namespace winnow
