// The winnow command: parses arguments, finds its rank, runs one sub-command. Exit codes are the values of StatusCode.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/printable_text.h"
#include "base/version.h"
#include "dist/communicator.h"
#include "launch/chat_command.h"
#include "launch/eval_loss_command.h"
#include "launch/eval_needle_command.h"
#include "launch/eval_patterns_command.h"
#include "launch/eval_qa_command.h"
#include "launch/eval_report_command.h"
#include "launch/eval_ruler_command.h"
#include "launch/generate_command.h"
#include "launch/inspect_command.h"
#include "launch/tokenize_command.h"
#include "launch/version_command.h"

namespace winnow {
namespace {

int ExitCode(const Status& status) {
  return int(status.code());
}

void PrintError(const Status& status) {
  if (!status.ok()) fmt::print(stderr, "winnow: {}\n", Printable(status.message()));
}

// A full disk must not pass for an answer.
Status CheckWritten() {
  std::cout.flush();
  const bool written = std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written ? OkStatus() : InternalError("standard output could not be written");
}

// This rank as the launcher's environment has it, before MPI is up. None: started by hand.
std::optional<std::string> LaunchedRank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* value = std::getenv(name)) return value;
  }
  return std::nullopt;
}

bool IsFirstRank() {
  return LaunchedRank().value_or("0") == "0";
}

// CLI11 looks for missing options first, but what was typed wrong explains more.
Status ArgumentError(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  return InvalidArgument((unknown.empty() ? error.what() : "unknown argument '" + unknown.front() + "'") +
                         std::string(" (see winnow --help)"));
}

std::string ThreadsAsked(const std::optional<int>& threads) {
  return "--threads " + (threads ? std::to_string(*threads) : "as many as there are cores for");
}

// What was asked for that takes memory besides the model and the KV pages, which say so themselves.
template <class Options>
std::string MemoryAsked(const Options& o) {
  return "--max-num-batched-tokens " + std::to_string(o.max_num_batched_tokens) + ", --max-num-seqs " +
         std::to_string(o.max_num_seqs) + ", " + ThreadsAsked(o.threads);
}

// Runs a sub-command on all ranks of the job: run(communicator) is collective. memory_asked: for the message when
// memory runs out.
template <class F>
int RunOnRanks(const Status& arguments, int* argc, char*** argv, const std::string& memory_asked, F&& run) {
  if (!arguments.ok() && !LaunchedRank()) {
    PrintError(arguments);
    return ExitCode(arguments);
  }
  auto communicator = MakeMpiCommunicator(argc, argv);
  if (!communicator.ok()) {
    PrintError(communicator.status());
    return ExitCode(communicator.status());
  }
  Status status;
  try {
    status = run(**communicator);
  } catch (const std::bad_alloc&) {
    // The other ranks may be inside a collective.
    (*communicator)->Abort(OutOfMemory("memory ran out; asked for were " + memory_asked + ": lower one of them"));
  }
  if ((*communicator)->rank() == 0) PrintError(status);
  return ExitCode(status);
}

int Main(int argc, char** argv) {
  CLI::App app{"winnow: LLM inference over many ranks, with a KV cache that stays inside its budget"};
  app.set_version_flag("--version", "winnow " + std::string(GetBuildInfo().version));
  app.require_subcommand(1);

  GenerateOptions generate_options;
  auto* generate = app.add_subcommand("generate", "continue prompts");
  AddGenerateFlags(*generate, &generate_options);

  ChatOptions chat_options;
  auto* chat = app.add_subcommand("chat", "talk with a model, line by line");
  AddChatFlags(*chat, &chat_options);

  EvalLossOptions eval_loss_options;
  auto* eval = app.add_subcommand("eval", "measure what eviction costs");
  eval->require_subcommand(1);
  auto* eval_loss = eval->add_subcommand("loss", "teacher-forced loss of texts under policies, beside the full cache");
  AddEvalLossFlags(*eval_loss, &eval_loss_options);
  AddEvalRunFlags(*eval_loss, &eval_loss_options);
  EvalLossOptions eval_patterns_options;
  auto* eval_patterns = eval->add_subcommand("patterns", "which KV pairs a text attends to again, and who holds them");
  AddEvalLossFlags(*eval_patterns, &eval_patterns_options);
  EvalRulerOptions eval_ruler_options;
  auto* eval_ruler = eval->add_subcommand("ruler", "RULER's tasks, generated, with a full cache and under policies");
  AddEvalRulerFlags(*eval_ruler, &eval_ruler_options);
  EvalNeedleOptions eval_needle_options;
  auto* eval_needle = eval->add_subcommand("needle", "one needle in a haystack, over lengths and depths");
  AddEvalNeedleFlags(*eval_needle, &eval_needle_options);
  EvalQaOptions eval_qa_options;
  auto* eval_qa = eval->add_subcommand("qa", "problems of yours: GSM8K, AIME, GPQA, BBH, LongBench");
  AddEvalQaFlags(*eval_qa, &eval_qa_options);
  for (auto* line :
       {&eval_loss_options.command_line, &eval_patterns_options.command_line, &eval_ruler_options.command_line,
        &eval_needle_options.command_line, &eval_qa_options.command_line}) {
    line->assign(argv, argv + argc);
  }
  EvalReportOptions eval_report_options;
  auto* eval_report = eval->add_subcommand("report", "results of other evaluations as Markdown tables and plots");
  eval_report->add_option("files", eval_report_options.paths, "result files (winnow eval ... --json or --out)")
      ->required();
  eval_report->add_option("--out", eval_report_options.out,
                          "folder for report.md and the plots; default: tables on standard output");

  std::string inspect_path;
  std::optional<std::string> inspect_model;
  bool inspect_json = false, version_json = false;
  auto* inspect = app.add_subcommand("inspect", "show what a model holds");
  inspect
      ->add_option("file", inspect_path, "model: GGUF file, or Hugging Face directory; or a PEFT adapter's directory")
      ->required();
  inspect->add_option("--model", inspect_model, "of an adapter: check that it fits this model");
  inspect->add_flag("--json", inspect_json, "as one JSON object");
  TokenizeOptions tokenize_options;
  auto* tokenize = app.add_subcommand("tokenize", "show the tokens of a text: id, bytes, where each comes from");
  AddTokenizeFlags(*tokenize, &tokenize_options);
  auto* version = app.add_subcommand("version", "show version, compiler, MPI, instruction set");
  version->add_flag("--json", version_json, "as one JSON object");

  Status status;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      if (!IsFirstRank()) return 0;
      app.exit(error);
      status = CheckWritten();
      PrintError(status);
      return ExitCode(status);
    }
    status = ArgumentError(app, error);
  }
  if (generate->parsed()) {
    return RunOnRanks(status, &argc, &argv, MemoryAsked(generate_options),
                      [&](Communicator& c) { return RunGenerate(status, generate_options, c); });
  }
  if (chat->parsed()) {
    const std::string memory_asked = "--max-num-batched-tokens " + std::to_string(chat_options.max_num_batched_tokens) +
                                     ", " + ThreadsAsked(chat_options.threads);
    return RunOnRanks(status, &argc, &argv, memory_asked,
                      [&](Communicator& c) { return RunChat(status, chat_options, c); });
  }
  if (eval_loss->parsed()) {
    return RunOnRanks(status, &argc, &argv, ThreadsAsked(eval_loss_options.threads),
                      [&](Communicator& c) { return RunEvalLoss(status, eval_loss_options, c); });
  }
  if (eval_patterns->parsed()) {
    return RunOnRanks(status, &argc, &argv, ThreadsAsked(eval_patterns_options.threads),
                      [&](Communicator& c) { return RunEvalPatterns(status, eval_patterns_options, c); });
  }
  if (eval_ruler->parsed()) {
    return RunOnRanks(status, &argc, &argv, MemoryAsked(eval_ruler_options),
                      [&](Communicator& c) { return RunEvalRuler(status, eval_ruler_options, c); });
  }
  if (eval_needle->parsed()) {
    return RunOnRanks(status, &argc, &argv, MemoryAsked(eval_needle_options),
                      [&](Communicator& c) { return RunEvalNeedle(status, eval_needle_options, c); });
  }
  if (eval_qa->parsed()) {
    return RunOnRanks(status, &argc, &argv, MemoryAsked(eval_qa_options),
                      [&](Communicator& c) { return RunEvalQa(status, eval_qa_options, c); });
  }

  // No work for many ranks: the first one answers, and its exit code is the job's.
  if (!IsFirstRank()) return 0;
  if (status.ok() && eval_report->parsed()) status = RunEvalReport(eval_report_options);
  if (status.ok() && version->parsed()) PrintVersion(version_json);
  if (status.ok() && tokenize->parsed()) status = RunTokenize(tokenize_options);
  if (status.ok() && inspect->parsed()) status = InspectFile(inspect_path, inspect_model, inspect_json);
  if (status.ok()) status = CheckWritten();
  PrintError(status);
  return ExitCode(status);
}

}  // namespace
}  // namespace winnow

int main(int argc, char** argv) {
  return winnow::Main(argc, argv);
}
