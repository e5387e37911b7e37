// The flags of evaluations that take long: groups of ranks side by side, a result file, and going on after a stop. The
// same on every rank. Parsing touches nothing but the arguments.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "launch/engine_flags.h"

namespace CLI {
class App;
}

namespace winnow {

struct EvalRunFlags {
  int data_parallel_size = 1;           // groups of ranks, each with a model
  std::optional<std::string> out_path;  // the result as JSON; beside it a journal while the run goes on
  bool resume = false;                  // from that journal

  int tensor_parallel(int num_ranks) const { return num_ranks / data_parallel_size; }
};

// Declares --dp, --out and --resume; `flags` must live until parsing is over.
void AddEvalRunFlags(CLI::App& command, EvalRunFlags* flags);

// Those and the engine's: ranks = --tp x --dp. InvalidArgument naming the flag, what was expected and what was found.
Status CheckEvalRunFlags(const EvalRunFlags& flags, const EngineFlags& engine, int num_ranks);

}  // namespace winnow
