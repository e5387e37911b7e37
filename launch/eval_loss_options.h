// The flags of `winnow eval loss`, the same on every rank. Parsing touches nothing but the arguments.
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

// --dp, --out and --resume are of eval loss alone.
struct EvalLossOptions : EngineFlags, EvalRunFlags {
  std::vector<std::string> text_paths;
  std::vector<std::string> policies;
  std::vector<int64_t> budgets;          // tokens per KV head; or
  std::vector<double> ratios;            // of each text
  EvictionSettings eviction;             // the rest of the settings, the same for all policies
  std::optional<int64_t> prompt_tokens;  // that every text begins with; none: as its "prompt" says
  uint64_t seed = 0;                     // of random eviction
  std::optional<std::string> split;
  std::optional<int64_t> max_texts;  // of each kind
  std::optional<int64_t> max_text_tokens;
  bool json = false;
};

// Declares the flags on a sub-command; `options` must live until parsing is over.
void AddEvalLossFlags(CLI::App& command, EvalLossOptions* options);

// What the flags' own types cannot say. InvalidArgument naming the flag, what was expected and what was found.
Status CheckEvalLossOptions(const EvalLossOptions& options, int num_ranks);

}  // namespace winnow
