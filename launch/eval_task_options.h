// The flags that the evaluations with generation share (`winnow eval ruler`, `needle`, `qa`): policies, their budgets,
// and how many answers are worked on together. Parsing touches nothing but the arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/request.h"
#include "launch/engine_flags.h"
#include "launch/eval_run_flags.h"

namespace CLI {
class App;
}

namespace winnow {

struct EvalTaskOptions : EngineFlags, EvalRunFlags {
  std::vector<std::string> policies;
  std::vector<int64_t> budgets;  // tokens per KV head; or
  std::vector<double> ratios;    // of the compressed prompt
  EvictionSettings eviction;     // the rest of the settings, the same for all policies
  uint64_t seed = 0;             // of samples, of random eviction and of sampled answers
  bool query_aware = false;      // the question is part of what is compressed
  std::optional<int64_t> max_new_tokens;
  int64_t max_num_seqs = 8;
  int64_t max_num_batched_tokens = 512;
  std::optional<std::string> answers_path;  // where every answer is written, JSON Lines
  bool json = false;
};

// Declares the flags on a sub-command; `options` must live until parsing is over. RefuseOddIntegers is the caller's.
void AddEvalTaskFlags(CLI::App& command, EvalTaskOptions* options);

// What the flags' own types cannot say. InvalidArgument naming the flag, what was expected and what was found.
Status CheckEvalTaskOptions(const EvalTaskOptions& options, int num_ranks);

// One row of results: a policy at a budget. The first of all is the full cache.
struct EvalCase {
  std::string policy = "full";
  int64_t budget = 0;  // tokens, or
  double ratio = 0;    // of the compressed prompt

  // What the user asks of the policy; ResolveEviction comes later, for each prompt.
  EvictionSettings Asked(const EvictionSettings& shared) const;
  std::string BudgetText() const;  // "512", "0.25", "-"
};

// The full cache, then every policy at the first budget, every policy at the next, and so on.
std::vector<EvalCase> CasesOf(const EvalTaskOptions& options);

}  // namespace winnow
