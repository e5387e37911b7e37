// What `winnow generate` prints at the end: one JSON object a request, or one table. Rank 0 only.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/leader.h"
#include "engine/rank_engine.h"
#include "model/model_config.h"

namespace winnow {

// The run as a whole: what all its results have in common.
struct RunSummary {
  ModelConfig config;
  int num_ranks = 1;
  int threads_per_rank = 1;
  std::string backend;  // name and kernels, e.g. "cpu (avx2)"
  std::string numerics;
  std::string kv_cache_dtype;
  std::string communicator;
  WorkReport work;
};

// Order-sensitive hash of token ids, 16 hex digits.
std::string HexTokenHash(const std::vector<int32_t>& token_ids);

// docs/architecture.md documents every key.
nlohmann::ordered_json CompletionJson(const Request& request, const Completion& completion, const std::string& text,
                                      const RunSummary& run);

// Totals over all requests of the run, lines of "name  value".
std::string SummaryTable(const std::vector<Request>& requests, const std::vector<Completion>& completions,
                         const RunSummary& run);

}  // namespace winnow
