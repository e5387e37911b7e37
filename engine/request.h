// What a user asks for, resolved to numbers: the same on every rank, and enough to compute the answer again (E4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/sampler.h"
#include "policies/eviction_policy.h"

namespace winnow {

// A policy and its budget, in tokens per KV head. When evictions fall due: engine/eviction_schedule.h.
struct EvictionSettings {
  std::string policy = "full";
  int64_t budget = 0;  // 0: none (policy full)
  int64_t interval = 128;
  int64_t sink_tokens = 4;
  int64_t recent_tokens = 32;
  bool protect_prompt = false;  // the whole prompt stays, as sinks do
  std::optional<EvictionScope> scope =
      std::nullopt;  // none: the policy's own; resolved settings of an evicting policy have one
  EvictionTiming timing = EvictionTiming::kChunked;  // the policy's own, once resolved

  bool evicts() const { return budget > 0; }
  int64_t Trigger() const { return budget + interval; }  // slots of a head at which an eviction is due (chunked)
};

// What the numbers of a budget are checked against.
struct EvictionContext {
  int64_t prompt_tokens = 0;
  int64_t pinned_slots = 0;  // in all
};

// Checks the numbers and the policy's name, and resolves a policy that never evicts to budget 0. InvalidArgument.
Result<EvictionSettings> ResolveEviction(const EvictionSettings& asked, const EvictionContext& context);

// Slots that belong to no text token, with their keys and values as they are stored: learned or restored ones. They
// follow the text's first `after_tokens` tokens (1 or more), own positions as tokens do, are never evicted, and count
// against the budget, not in what is reported as kept.
struct PinnedBlock {
  int64_t after_tokens = 0;
  int64_t num_slots = 0;
  std::vector<float> keys, values;  // [layers][KV heads of the model][num_slots][head_dim], keys rotated
};

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

  int64_t prompt_tokens() const { return original_prompt_tokens > 0 ? original_prompt_tokens : int64_t(prompt.size()); }
};

enum class FinishReason { kStop, kLength, kError };
// "stop", "length", "error".
std::string Name(FinishReason reason);

}  // namespace winnow
