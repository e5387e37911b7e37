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

// A policy and its budget, in tokens per KV head. A sequence is evicted down to `budget` whenever a head holds
// budget + interval slots, also while its prompt is read.
struct EvictionSettings {
  std::string policy = "full";
  int64_t budget = 0;  // 0: none (policy full)
  int64_t interval = 128;
  int64_t sink_tokens = 4;
  int64_t recent_tokens = 32;
  std::optional<EvictionScope> scope =
      std::nullopt;  // none: the policy's own; resolved settings of an evicting policy have one

  bool evicts() const { return budget > 0; }
  int64_t Trigger() const { return budget + interval; }  // slots of a head at which an eviction is due
  // The most slots that a head of a sequence of `num_tokens` tokens ever holds.
  int64_t MaxSlots(int64_t num_tokens) const { return evicts() && Trigger() < num_tokens ? Trigger() : num_tokens; }
};

// Checks the numbers and the policy's name, and resolves a policy that never evicts to budget 0. InvalidArgument.
Result<EvictionSettings> ResolveEviction(const EvictionSettings& asked);

struct Request {
  int64_t id = 0;  // position in the run; names nothing random
  std::vector<int32_t> prompt;
  int64_t max_tokens = 0;
  std::vector<int32_t> stop_token_ids;  // generation ends after one of these
  SamplingParams sampling;
  int64_t choice_index = 0;
  EvictionSettings eviction;
};

enum class FinishReason { kStop, kLength, kError };
// "stop", "length", "error".
std::string Name(FinishReason reason);

}  // namespace winnow
