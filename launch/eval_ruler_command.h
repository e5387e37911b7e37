// `winnow eval ruler`: RULER's tasks with a full cache and under policies. Engine thread; collective.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "dist/communicator.h"
#include "launch/eval_task_options.h"

namespace winnow {

struct EvalRulerOptions : EvalTaskOptions {
  std::vector<std::string> tasks;  // none: all that need no file, and those whose file is given
  int64_t length = 4096;           // tokens of a prompt with its answer
  int64_t samples = 10;            // of each task
  std::optional<std::string> haystack_path, squad_path, hotpotqa_path;
};

// Declares the flags on a sub-command; `options` must live until parsing is over.
void AddEvalRulerFlags(CLI::App& command, EvalRulerOptions* options);

Status RunEvalRuler(const Status& arguments, const EvalRulerOptions& options, Communicator& communicator);

}  // namespace winnow
