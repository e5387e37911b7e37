// Requests for the exactness tests: texts of different length, greedy and sampled, under several policies and budgets,
// so that evictions fall into prefill and decode.
#pragma once

#include <string>
#include <vector>

#include "base/philox.h"
#include "engine/request.h"

namespace winnow {

inline std::vector<int32_t> RandomTokens(uint64_t seed, int64_t count, int32_t vocab_size) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(
        int32_t(Philox(seed, {uint32_t(RandomPurpose::kSeed), uint32_t(i), 0, 0})[0] % uint32_t(vocab_size)));
  }
  return tokens;
}

// Every policy but those that need a text known to its end and recorded.
inline std::vector<std::string> PoliciesOfAnyText() {
  std::vector<std::string> names;
  for (const std::string& name : PolicyNames()) {
    if (!MakePolicy(name).value()->observations().future) names.push_back(name);
  }
  return names;
}

// Request `index` of a fixed series; index 1 is the one that tests single out.
inline Request MixedRequest(int64_t index, int32_t vocab_size, int64_t max_tokens) {
  static const char* const kPolicies[] = {"streaming-llm", "random", "full", "snapkv", "h2o"};
  Request request;
  request.id = index;
  request.prompt = RandomTokens(uint64_t(100 + index), 5 + 37 * (index % 5), vocab_size);
  request.max_tokens = max_tokens;
  request.eviction.policy = kPolicies[index % 5];
  if (request.eviction.policy != "full") {
    request.eviction.budget = 40 + index;
    request.eviction.interval = 11 + index % 4;
    request.eviction.recent_tokens = 8;
    request.eviction.scope = EvictionScope(index / 2 % 3);
  }
  if (index % 2 == 1) request.sampling = {.temperature = 1.1f, .top_k = 50, .top_p = 0.95f, .min_p = 0.01f};
  request.sampling.seed = uint64_t(7 + index);
  return request;
}

inline std::vector<Request> MixedRequests(int64_t count, int32_t vocab_size, int64_t max_tokens) {
  std::vector<Request> requests;
  for (int64_t i = 0; i < count; ++i) requests.push_back(MixedRequest(i, vocab_size, max_tokens));
  return requests;
}

}  // namespace winnow
