// The flags of `winnow eval loss`, the same on every rank. Parsing touches nothing but the arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/request.h"
#include "launch/engine_flags.h"

namespace CLI {
class App;
}

namespace winnow {

struct EvalLossOptions : EngineFlags {
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
  // Of eval loss alone:
  int data_parallel_size = 1;           // groups of ranks, each with a model
  std::optional<std::string> out_path;  // the result as JSON; beside it a journal while the run goes on
  bool resume = false;                  // from that journal

  int tensor_parallel(int num_ranks) const { return num_ranks / data_parallel_size; }
};

// Declares the flags on a sub-command; `options` must live until parsing is over.
void AddEvalLossFlags(CLI::App& command, EvalLossOptions* options);

// Those that eval loss alone has.
void AddEvalLossRunFlags(CLI::App& command, EvalLossOptions* options);

// What the flags' own types cannot say. InvalidArgument naming the flag, what was expected and what was found.
Status CheckEvalLossOptions(const EvalLossOptions& options, int num_ranks);

}  // namespace winnow
