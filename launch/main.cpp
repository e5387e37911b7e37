// The winnow command: parses arguments, finds its rank, runs one sub-command. Exit codes are the values of StatusCode.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/version.h"
#include "dist/communicator.h"
#include "launch/generate_command.h"
#include "launch/inspect_command.h"
#include "launch/version_command.h"

namespace winnow {
namespace {

int ExitCode(const Status& status) {
  return int(status.code());
}

void PrintError(const Status& status) {
  if (!status.ok()) fmt::print(stderr, "winnow: {}\n", status.message());
}

// True on the rank that speaks: known from the launcher's environment, before MPI is up.
bool IsFirstRank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* value = std::getenv(name)) return std::string_view(value) == "0";
  }
  return true;
}

int RunGenerateCommand(const GenerateOptions& options, int* argc, char*** argv) {
  auto communicator = MakeMpiCommunicator(argc, argv);
  if (!communicator.ok()) {
    PrintError(communicator.status());
    return ExitCode(communicator.status());
  }
  const Status status = RunGenerate(options, **communicator);
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

  std::string inspect_path;
  bool inspect_json = false, version_json = false;
  auto* inspect = app.add_subcommand("inspect", "show what a model file holds");
  inspect->add_option("file", inspect_path, "model file (GGUF)")->required();
  inspect->add_flag("--json", inspect_json, "as one JSON object");
  auto* version = app.add_subcommand("version", "show version, compiler, MPI, instruction set");
  version->add_flag("--json", version_json, "as one JSON object");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (!IsFirstRank()) return error.get_exit_code() == 0 ? 0 : ExitCode(InvalidArgument(""));
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    PrintError(InvalidArgument(std::string(error.what()) + " (see winnow --help)"));
    return ExitCode(InvalidArgument(""));
  }

  if (version->parsed()) {
    PrintVersion(version_json);
    return 0;
  }
  if (inspect->parsed()) {
    const Status status = InspectFile(inspect_path, inspect_json);
    PrintError(status);
    return ExitCode(status);
  }
  return RunGenerateCommand(generate_options, &argc, &argv);
}

}  // namespace
}  // namespace winnow

int main(int argc, char** argv) {
  return winnow::Main(argc, argv);
}
