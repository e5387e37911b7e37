#include "launch/eval_loss_command.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/printable_text.h"
#include "launch/console.h"
#include "launch/eval_loss_cases.h"
#include "launch/eval_loss_result.h"
#include "launch/eval_loss_session.h"
#include "launch/eval_loss_units.h"
#include "launch/eval_resume.h"

namespace winnow {
namespace {

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
  const int tensor_parallel = options.tensor_parallel(communicator.size());
  ResultJson asked = LossSettingsJson(options, texts, session.max_text_tokens);
  asked.erase("text_files");  // the texts themselves count
  WINNOW_RETURN_IF_ERROR(OpenJournal(
      options, JournalIdentity(std::move(asked), options, {*session.model, tensor_parallel, session.threads}),
      communicator, &journal));

  std::vector<BudgetStudy> studies = StudiesOf(options);
  const auto begin = std::chrono::steady_clock::now();
  WINNOW_ASSIGN_OR_RETURN(const LossWork work, RunLossUnits(options, texts,
                                                            {.world = communicator,
                                                             .num_groups = options.data_parallel_size,
                                                             .engine = *session.engine,
                                                             .journal = journal ? &*journal : nullptr},
                                                            &studies));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const RunEnvironment environment =
      GatherEnvironment(communicator, session.engine->backend(), tensor_parallel, session.threads);
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
