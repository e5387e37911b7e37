#include "launch/eval_loss_command.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/printable_text.h"
#include "base/version.h"
#include "launch/console.h"
#include "launch/eval_loss_cases.h"
#include "launch/eval_loss_result.h"
#include "launch/eval_loss_session.h"
#include "launch/eval_loss_units.h"
#include "model/whole_file.h"

namespace winnow {
namespace {

// Everything that decides what a unit's value is: what was asked, of which model and texts. Sizes of caches depend on
// the ranks that share a model, and under --numerics fast all numbers do.
ResultJson JournalIdentity(const EvalLossOptions& options, const EvalLossSession& session, int tensor_parallel) {
  ResultJson settings = LossSettingsJson(options, session.texts, session.max_text_tokens);
  settings.erase("text_files");  // the texts themselves count
  const BuildInfo& build = GetBuildInfo();
  ResultJson identity = {{"settings", std::move(settings)},
                         {"model", ModelJson(*session.model)},
                         {"tensor_parallel", tensor_parallel},
                         {"winnow", {{"version", build.version}, {"git_id", build.git_id}}}};
  if (options.numerics == "fast") identity["threads_per_rank"] = session.threads;
  return identity;
}

// The journal beside --out, on rank 0; none without --out. The Status is the same on all ranks.
Status OpenJournal(const EvalLossOptions& options, const EvalLossSession& session, Communicator& world,
                   std::optional<EvalJournal>* journal) {
  Status opened = OkStatus();
  if (world.rank() == 0 && options.out_path) {
    const auto open = [&]() -> Status {
      WINNOW_RETURN_IF_ERROR(CheckCanWrite(*options.out_path));  // not only after hours of work
      WINNOW_ASSIGN_OR_RETURN(
          EvalJournal mine,
          EvalJournal::Open(*options.out_path + ".journal",
                            JournalIdentity(options, session, options.tensor_parallel(world.size())), options.resume));
      journal->emplace(std::move(mine));
      return OkStatus();
    };
    opened = open();
    if (opened.ok() && !(*journal)->finished().empty()) {
      Note(fmt::format("going on after {} finished units of {}.journal", (*journal)->finished().size(),
                       *options.out_path));
    }
  }
  return AgreeOnVerdict(world, opened);
}

Status Report(const EvalLossOptions& options, const LossOutcome& outcome, ResultJson settings, ResultJson timing,
              const Checkpoint& model, const RunEnvironment& environment) {
  for (const ResultJson& refusal : outcome.refused) {
    Note("no row for " + refusal["policy"].get<std::string>() + " at budget " + refusal["budget"].get<std::string>() +
         ": " + refusal["reason"].get<std::string>());
  }
  if (outcome.rows.empty()) {
    return InvalidArgument("every row was refused; the first reason: " +
                           outcome.refused[0]["reason"].get<std::string>());
  }
  if (options.json || options.out_path) {
    const ResultJson result = MakeResult({.kind = "loss",
                                          .command = options.command_line,
                                          .settings = std::move(settings),
                                          .rows = outcome.rows,
                                          .refused = outcome.refused,
                                          .timing = timing},
                                         model, environment);
    if (options.out_path) WINNOW_RETURN_IF_ERROR(WriteResultFile(*options.out_path, result));
    if (options.json) {
      PrintOut(result.dump(-1, ' ', false, ResultJson::error_handler_t::replace) + "\n");
      return CheckOutput();
    }
  }
  PrintOut(outcome.table);
  PrintOut(
      fmt::format("{}, {}, {}, {} rank(s) x {} thread(s), {}, KV cache {}: {:.0f} tokens/s of every case together\n",
                  Printable(model.config().name), environment.backend, environment.kernels,
                  environment.tensor_parallel * environment.data_parallel, environment.threads_per_rank,
                  options.numerics, options.kv_cache_dtype, timing["tokens_per_second"].get<double>()));
  return CheckOutput();
}

}  // namespace

Status RunEvalLoss(const Status& arguments, EvalLossOptions options, Communicator& communicator) {
  const bool is_first = communicator.rank() == 0;
  WINNOW_ASSIGN_OR_RETURN(const EvalLossSession session, OpenEvalLoss(arguments, &options, communicator));
  const std::vector<EvalText>& texts = session.texts;
  std::optional<EvalJournal> journal;
  WINNOW_RETURN_IF_ERROR(OpenJournal(options, session, communicator, &journal));

  std::vector<BudgetStudy> studies = StudiesOf(options);
  const auto begin = std::chrono::steady_clock::now();
  WINNOW_ASSIGN_OR_RETURN(const LossWork work, RunLossUnits(options, texts,
                                                            {.world = communicator,
                                                             .num_groups = options.data_parallel_size,
                                                             .engine = *session.engine,
                                                             .journal = journal ? &*journal : nullptr},
                                                            &studies));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const RunEnvironment environment = GatherEnvironment(communicator, session.engine->backend(),
                                                       options.tensor_parallel(communicator.size()), session.threads);
  Status reported = OkStatus();
  if (is_first) {
    const LossOutcome outcome = SummariseStudies(options, studies, texts);
    reported = Report(options, outcome, LossSettingsJson(options, texts, session.max_text_tokens),
                      {{"seconds", seconds},
                       {"tokens", work.tokens},
                       {"tokens_per_second", seconds > 0 ? double(work.tokens) / seconds : 0.0},
                       {"units", work.units},
                       {"resumed_units", work.resumed}},
                      *session.model, environment);
    // With no row left there is nothing to write, and nothing that another run could go on with.
    if (journal && (reported.ok() || outcome.rows.empty())) journal->Remove();
  }
  return AgreeOnVerdict(communicator, reported);
}

}  // namespace winnow
