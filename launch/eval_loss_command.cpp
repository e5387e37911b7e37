#include "launch/eval_loss_command.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/printable_text.h"
#include "base/progress_bar.h"
#include "launch/console.h"
#include "launch/eval_loss_cases.h"
#include "launch/eval_loss_result.h"
#include "launch/eval_loss_session.h"

namespace winnow {
namespace {

Status RunStudies(const EvalLossOptions& options, const std::vector<EvalText>& texts, RankEngine& engine,
                  ProgressBar* bar, std::vector<BudgetStudy>* studies) {
  int64_t done_before = 0;
  for (BudgetStudy& study : *studies) {
    for (const EvalText& text : texts) {
      WINNOW_ASSIGN_OR_RETURN(const auto cases, CasesOf(options, study, text));
      WINNOW_ASSIGN_OR_RETURN(auto scores, RunLossStudy(engine.runner(), text, cases, options.seed, [&](int64_t done) {
                                if (bar != nullptr) bar->Update(uint64_t(done_before + done));
                              }));
      done_before += LossStudyTokens(text, cases);
      for (size_t i = 0; i < scores.size(); ++i) study.texts[i].push_back({text.id, text.kind, std::move(scores[i])});
    }
  }
  return OkStatus();
}

Status Report(const EvalLossOptions& options, const LossOutcome& outcome, ResultJson settings, ResultJson timing,
              const OpenedModel& model, const RunEnvironment& environment) {
  for (const ResultJson& refusal : outcome.refused) {
    Note("no row for " + refusal["policy"].get<std::string>() + " at budget " + refusal["budget"].get<std::string>() +
         ": " + refusal["reason"].get<std::string>());
  }
  if (outcome.rows.empty()) {
    return InvalidArgument("every row was refused; the first reason: " +
                           outcome.refused[0]["reason"].get<std::string>());
  }
  if (options.json) {
    const ResultJson result = MakeResult({.kind = "loss",
                                          .command = options.command_line,
                                          .settings = std::move(settings),
                                          .rows = outcome.rows,
                                          .refused = outcome.refused,
                                          .timing = std::move(timing)},
                                         model, environment);
    PrintOut(result.dump(-1, ' ', false, ResultJson::error_handler_t::replace) + "\n");
    return CheckOutput();
  }
  PrintOut(outcome.table);
  PrintOut(
      fmt::format("{}, {}, {}, {} rank(s) x {} thread(s), {}, KV cache {}: {:.0f} tokens/s of every case together\n",
                  Printable(model.config.name), environment.backend, environment.kernels,
                  environment.tensor_parallel * environment.data_parallel, environment.threads_per_rank,
                  options.numerics, options.kv_cache_dtype, timing["tokens_per_second"].get<double>()));
  return CheckOutput();
}

}  // namespace

Status RunEvalLoss(const Status& arguments, EvalLossOptions options, Communicator& communicator) {
  const bool is_first = communicator.rank() == 0;
  WINNOW_ASSIGN_OR_RETURN(const EvalLossSession session, OpenEvalLoss(arguments, &options, communicator));
  const std::vector<EvalText>& texts = session.texts;
  std::vector<BudgetStudy> studies = StudiesOf(options);
  uint64_t total_tokens = 0;
  int64_t rows = 0;  // each case's of the same tokens
  for (const BudgetStudy& study : studies) {
    for (const EvalText& text : texts) {
      const std::vector<EvictionSettings> cases = CasesOf(options, study, text).value();
      total_tokens += uint64_t(LossStudyTokens(text, cases));
      rows += LossStudyTokens(text, cases) + (int64_t(text.tokens.size()) - 1) * int64_t(cases.size());
    }
  }
  std::unique_ptr<ProgressBar> bar;
  if (is_first) {
    bar = std::make_unique<ProgressBar>(
        ForStandardError({.label = "reading texts", .total = total_tokens, .step_name = "tokens"}));
  }
  const auto begin = std::chrono::steady_clock::now();
  const Status status = RunStudies(options, texts, *session.engine, bar.get(), &studies);
  if (!status.ok()) communicator.Abort(status);  // the same on all ranks, but nobody can go on
  if (bar) bar->Finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const RunEnvironment environment = GatherEnvironment(communicator, session.engine->backend(),
                                                       /*tensor_parallel=*/communicator.size(), session.threads);
  Status reported = OkStatus();
  if (is_first) {
    reported = Report(options, SummariseStudies(options, studies, texts),
                      LossSettingsJson(options, texts, session.max_text_tokens),
                      {{"seconds", seconds}, {"tokens", rows}, {"tokens_per_second", double(rows) / seconds}},
                      session.model, environment);
  }
  return AgreeOnVerdict(communicator, reported);
}

}  // namespace winnow
