// `winnow eval needle`: one needle in a haystack over lengths and depths, with a full cache and under policies. Engine
// thread; collective.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "dist/communicator.h"
#include "launch/eval_task_options.h"

namespace winnow {

struct EvalNeedleOptions : EvalTaskOptions {
  std::vector<int64_t> lengths = {1024, 2048, 4096};                           // tokens of a prompt with its answer
  std::vector<int64_t> depths = {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100};  // percent
  int64_t samples = 1;                                                         // of each cell
  std::optional<std::string> haystack_path;
};

// Declares the flags on a sub-command; `options` must live until parsing is over.
void AddEvalNeedleFlags(CLI::App& command, EvalNeedleOptions* options);

Status RunEvalNeedle(const Status& arguments, const EvalNeedleOptions& options, Communicator& communicator);

}  // namespace winnow
