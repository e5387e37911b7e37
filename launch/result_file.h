// The one form in which measurements leave winnow: a JSON object that says what was asked, of which model, on what, and
// what came out. Every `winnow eval` command prints it with --json; `winnow eval report` reads it back.
// docs/evaluation.md ("The result format") documents every key for users.
//
// A command makes it so: GatherEnvironment on all ranks (collective) when the engine stands, MakeResult on rank 0, then
// PrintOut(result.dump() + "\n") or WriteResultFile. GatherEnvironment: engine thread; the rest: any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "dist/communicator.h"
#include "launch/model_session.h"

namespace winnow {

using ResultJson = nlohmann::ordered_json;  // keys stay in the order in which they were written

// Raised when a key is renamed, removed or given another meaning; a new key does not raise it. A reader refuses others.
inline constexpr int kResultVersion = 1;
inline constexpr const char* kResultFormat = "winnow-result";

// What the numbers were measured on.
struct RunEnvironment {
  std::string backend, kernels;  // "cpu", "avx2"
  std::string communicator;      // "mpi", "local"
  int tensor_parallel = 1;       // ranks that share a model
  int data_parallel = 1;         // groups of such ranks; ranks = tensor_parallel * data_parallel
  int threads_per_rank = 1;      // of rank 0
  int hosts = 1;
  std::string cpu;   // of rank 0, as the system names it
  std::string date;  // UTC, ISO 8601, when this was gathered: "2026-11-30T02:15:00Z"
};

// world: all ranks of the job, tensor_parallel of them share a model. Collective: an all-gather of 8 bytes.
RunEnvironment GatherEnvironment(Communicator& world, const Backend& backend, int tensor_parallel,
                                 int threads_per_rank);

// What a result says besides its environment.
struct ResultParts {
  std::string kind;                  // what the rows are: "loss", "ruler", "needle", "qa", "patterns"
  std::vector<std::string> command;  // the command line, program name first, as it was typed
  ResultJson settings;               // object: everything that changes a number, resolved (defaults written out)
  ResultJson rows;                   // array of objects; each has "policy"
  ResultJson refused;                // array of objects: rows that would mislead; each has "reason"
  ResultJson timing;                 // object; has "seconds"
};

// The whole object: format, command, settings, model, environment, rows, refused, timing, in this order. The build
// (version, commit, compiler, MPI library) is added to the environment here.
ResultJson MakeResult(ResultParts parts, const Checkpoint& model, const RunEnvironment& environment);

// The model as results and journals name it: name, architecture, fingerprint (16 hex digits, of metadata and tensor
// table), sizes.
ResultJson ModelJson(const Checkpoint& model);

// A value as messages show it: JSON in one line, cut after 60 bytes.
std::string Shown(const ResultJson& value);

// BadFile naming the first key that is missing or of another type, or format and version expected and found.
Status CheckResult(const ResultJson& result);

// Whole or not at all (model/whole_file.h). BadFile if it cannot be written.
Status WriteResultFile(const std::string& path, const ResultJson& result);

// A file of one checked result. BadFile, with the path, for everything else.
Result<ResultJson> ReadResultFile(const std::string& path);

}  // namespace winnow
