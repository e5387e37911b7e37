// `winnow eval qa`: problems of the user with known answers, with a full cache and under policies. Engine thread;
// collective.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "dist/communicator.h"
#include "launch/eval_task_options.h"

namespace winnow {

struct EvalQaOptions : EvalTaskOptions {
  std::string data_path, format = "auto";
  int64_t samples = 1;                  // answers to each problem
  std::optional<int64_t> max_problems;  // the first ones
  int64_t shots = 0;
  std::optional<std::string> shots_path;
  SamplingParams sampling;  // but for the seed
};

// Declares the flags on a sub-command; `options` must live until parsing is over.
void AddEvalQaFlags(CLI::App& command, EvalQaOptions* options);

Status RunEvalQa(const Status& arguments, const EvalQaOptions& options, Communicator& communicator);

}  // namespace winnow
