#include "launch/eval_run_flags.h"

#include <CLI/CLI.hpp>

namespace winnow {
namespace {

Status CheckGroups(const EvalRunFlags& flags, const EngineFlags& engine, int num_ranks) {
  if (flags.data_parallel_size < 1) {
    return InvalidArgument("--dp: expected 1 or more, found " + std::to_string(flags.data_parallel_size));
  }
  if (flags.data_parallel_size == 1) return CheckEngineFlags(engine, num_ranks);
  const int groups = flags.data_parallel_size;
  const int wanted = engine.tensor_parallel_size.value_or(num_ranks / groups) * groups;
  if (wanted < 1 || wanted != num_ranks) {
    return InvalidArgument(
        "--dp " + std::to_string(groups) + ": expected " +
        (engine.tensor_parallel_size ? std::to_string(wanted) + " ranks (--tp x --dp)" : "a multiple of it in ranks") +
        ", found " + std::to_string(num_ranks));
  }
  return CheckEngineFlags(engine, num_ranks / groups);
}

}  // namespace

void AddEvalRunFlags(CLI::App& command, EvalRunFlags* flags) {
  command
      .add_option("--dp,--data-parallel-size", flags->data_parallel_size,
                  "groups of ranks that work side by side; the ranks of a group share a model")
      ->capture_default_str();
  command.add_option("--out", flags->out_path,
                     "file for the result as JSON; what is finished is kept beside it, in FILE.journal, until then");
  command.add_flag("--resume", flags->resume, "go on where FILE.journal of --out ends, if it is there");
  RefuseOddIntegers(command);
}

Status CheckEvalRunFlags(const EvalRunFlags& flags, const EngineFlags& engine, int num_ranks) {
  WINNOW_RETURN_IF_ERROR(CheckGroups(flags, engine, num_ranks));
  if (flags.resume && !flags.out_path) return InvalidArgument("--resume: expected --out FILE beside it");
  return OkStatus();
}

}  // namespace winnow
