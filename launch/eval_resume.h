// The journal of an evaluation beside its result file (launch/eval_journal.h), for those that have --out and --resume.
// Engine thread; collective.
#pragma once

#include <optional>

#include "dist/communicator.h"
#include "launch/engine_flags.h"
#include "launch/eval_journal.h"
#include "launch/eval_run_flags.h"
#include "launch/result_file.h"

namespace winnow {

// What decides the value of an evaluation's units, beside what was asked.
struct JournalContext {
  const Checkpoint& model;
  int tensor_parallel;
  int threads_per_rank;
};

// Everything that decides what a unit's value is: `settings` says what was asked, of which texts or prompts. Sizes of
// caches depend on the ranks that share a model, and under --numerics fast all numbers do.
EvalJournal::Json JournalIdentity(EvalJournal::Json settings, const EngineFlags& flags, const JournalContext& context);

// The journal beside --out, on rank 0; none without --out. identity: of rank 0. The Status is the same on all ranks.
Status OpenJournal(const EvalRunFlags& flags, const EvalJournal::Json& identity, Communicator& world,
                   std::optional<EvalJournal>* journal);

}  // namespace winnow
