#include "launch/eval_loss_command.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/printable_text.h"
#include "base/progress_bar.h"
#include "launch/console.h"
#include "launch/eval_loss_cases.h"
#include "launch/eval_loss_result.h"
#include "launch/eval_texts.h"
#include "launch/model_session.h"

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
      done_before += int64_t(text.tokens.size()) - 1;
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

// Every rank makes its own plans from its own arguments: other ones would part the ranks, or mix two evaluations.
// Collective.
Status CheckSameArguments(Communicator& communicator, const EvalLossOptions& options) {
  const EvictionSettings& eviction = options.eviction;
  const auto name = [](const auto& choice) { return choice ? std::string(Name(*choice)) : "none"; };
  const std::string asked = fmt::format(
      "--policies {} --kv-budget {} --kv-ratio {} --kv-interval {} --kv-sink-tokens {} --kv-recent-tokens {} "
      "--kv-protect-prompt {} --kv-scope {} --kv-allocation {} --seed {} --numerics {} --kv-cache-dtype {} "
      "--check-ranks {}",
      fmt::join(options.policies, ","), fmt::join(options.budgets, ","), fmt::join(options.ratios, ","),
      eviction.interval, eviction.sink_tokens, eviction.recent_tokens, eviction.protect_prompt, name(eviction.scope),
      name(eviction.allocation), options.seed, options.numerics, options.kv_cache_dtype, options.check_ranks);
  uint64_t hash = 0, first = 0;
  for (unsigned char byte : asked) hash = HashWords({hash, byte});
  if (SameAsFirstRank(communicator, hash, &first)) return OkStatus();
  return InvalidArgument("expected the arguments of rank 0, found others: " + asked);
}

}  // namespace

Status RunEvalLoss(const Status& arguments, const EvalLossOptions& options, Communicator& communicator) {
  const bool is_first = communicator.rank() == 0;
  const auto agree = [&](const Status& mine) { return AgreeOnVerdict(communicator, mine); };
  WINNOW_RETURN_IF_ERROR(agree(arguments.ok() ? CheckEvalLossOptions(options, communicator.size()) : arguments));
  WINNOW_RETURN_IF_ERROR(agree(CheckSameArguments(communicator, options)));
  WINNOW_ASSIGN_OR_RETURN(const OpenedModel model, OpenModel(options.model_path, communicator));

  std::vector<EvalText> texts;
  Status read = OkStatus();
  if (is_first) {
    const auto read_texts = [&]() -> Result<std::vector<EvalText>> {
      WINNOW_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::FromGguf(model.file));
      const int64_t max_tokens = options.max_text_tokens.value_or(model.config.max_context);
      return ReadEvalTexts(options.text_paths, {options.split, options.max_texts, max_tokens}, tokenizer);
    };
    auto mine = read_texts();
    read = mine.status();
    if (read.ok()) texts = std::move(mine).value();
  }
  WINNOW_RETURN_IF_ERROR(agree(read));
  BroadcastEvalTexts(communicator, texts);
  const auto plan = MakeShardPlan(ShardDimsOf(model.config), communicator.size());
  WINNOW_CHECK(plan.ok());  // OpenModel has made one
  const auto pool_slots = PoolSlots(options, texts, MakeKvShards(model.config.num_layers, *plan));
  WINNOW_RETURN_IF_ERROR(agree(pool_slots.status()));

  std::string warning;
  const int threads = ResolveThreads(options.threads, &warning);
  if (is_first && !warning.empty()) Note(warning);
  WINNOW_ASSIGN_OR_RETURN(
      const auto engine,
      LoadEngine(model, ToEngineOptions(options, threads, *pool_slots, /*observe_attention=*/true), communicator));

  std::vector<BudgetStudy> studies = StudiesOf(options);
  uint64_t total_tokens = 0;
  for (const EvalText& text : texts) total_tokens += text.tokens.size() - 1;
  total_tokens *= studies.size();
  std::unique_ptr<ProgressBar> bar;
  if (is_first) {
    bar = std::make_unique<ProgressBar>(
        ForStandardError({.label = "reading texts", .total = total_tokens, .step_name = "tokens"}));
  }
  const auto begin = std::chrono::steady_clock::now();
  const Status status = RunStudies(options, texts, *engine, bar.get(), &studies);
  if (!status.ok()) communicator.Abort(status);  // the same on all ranks, but nobody can go on
  if (bar) bar->Finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const RunEnvironment environment =
      GatherEnvironment(communicator, engine->backend(), /*tensor_parallel=*/communicator.size(), threads);
  Status reported = OkStatus();
  if (is_first) {
    const int64_t rows = int64_t(total_tokens) * int64_t(options.policies.size() + 1);
    reported = Report(options, SummariseStudies(options, studies, texts),
                      LossSettingsJson(options, texts, options.max_text_tokens.value_or(model.config.max_context)),
                      {{"seconds", seconds}, {"tokens", rows}, {"tokens_per_second", double(rows) / seconds}}, model,
                      environment);
  }
  return agree(reported);
}

}  // namespace winnow
