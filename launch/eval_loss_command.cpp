#include "launch/eval_loss_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/hash.h"
#include "base/printable_text.h"
#include "base/progress_bar.h"
#include "eval/loss_report.h"
#include "kv/budget.h"
#include "launch/console.h"
#include "launch/eval_texts.h"
#include "launch/model_session.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// All policies at one budget: they are due at the same tokens, so they share the steps of a text.
struct BudgetStudy {
  int64_t budget = 0;                          // tokens, or
  double ratio = 0;                            // of the text
  std::vector<std::vector<ScoredText>> texts;  // of each policy
};

int64_t BudgetOf(const BudgetStudy& study, const EvalText& text) {
  if (study.budget > 0) return study.budget;
  const KvShape one_head{.num_layers = 1, .num_kv_heads = 1, .entry_bytes = 0};
  return std::max<int64_t>(1, EntriesInRatio(study.ratio, int64_t(text.tokens.size()), one_head));
}

std::vector<BudgetStudy> StudiesOf(const EvalLossOptions& options) {
  std::vector<BudgetStudy> studies;
  for (int64_t budget : options.budgets) studies.push_back({.budget = budget, .ratio = 0, .texts = {}});
  for (double ratio : options.ratios) studies.push_back({.budget = 0, .ratio = ratio, .texts = {}});
  for (BudgetStudy& study : studies) study.texts.resize(options.policies.size());
  return studies;
}

// Every policy's settings at the study's budget of this text.
Result<std::vector<EvictionSettings>> CasesOf(const EvalLossOptions& options, const BudgetStudy& study,
                                              const EvalText& text) {
  std::vector<EvictionSettings> cases;
  for (const std::string& policy : options.policies) {
    EvictionSettings asked = options.eviction;
    asked.policy = policy;
    asked.budget = BudgetOf(study, text);
    auto settings = ResolveEviction(asked, {.prompt_tokens = text.prompt_tokens});
    if (!settings.ok()) return InvalidArgument(text.id + ", policy " + policy + ": " + settings.status().message());
    cases.push_back(std::move(settings).value());
  }
  return cases;
}

// Checks every case before any work, and finds how many slots the largest text needs.
Result<int64_t> PoolSlots(const EvalLossOptions& options, const std::vector<EvalText>& texts,
                          const KvShards& shards) {
  int64_t slots = 0;
  for (const BudgetStudy& study : StudiesOf(options)) {
    for (const EvalText& text : texts) {
      if (options.eviction.protect_prompt && text.prompt_tokens == 0) {
        return InvalidArgument("--kv-protect-prompt: " + text.id + " has no \"prompt\"");
      }
      WINNOW_ASSIGN_OR_RETURN(const auto cases, CasesOf(options, study, text));
      slots = std::max(slots, LossStudySlots(text, cases, shards));
    }
  }
  return slots;
}

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

Json RowJson(const std::string& policy, const EvictionSettings& settings, const BudgetStudy& study,
             const LossRow& row) {
  return {{"policy", policy},
          {"scope", Name(*settings.scope)},
          {"allocation", Name(*settings.allocation)},
          {"budget", study.budget > 0 ? Json(study.budget) : Json(nullptr)},
          {"ratio", study.ratio > 0 ? Json(study.ratio) : Json(nullptr)},
          {"interval", settings.interval},
          {"texts", row.texts},
          {"num_texts", row.num_texts},
          {"positions", row.positions},
          {"loss", row.loss},
          {"full_loss", row.full_loss},
          {"loss_ratio", row.loss_ratio},
          {"loss_ratio_low_entropy", row.loss_ratio_low_entropy},
          {"loss_ratio_high_entropy", row.loss_ratio_high_entropy},
          {"kl", row.kl},
          {"top1_agreement", row.top1_agreement},
          {"kept_ratio", row.kept_ratio},
          {"kept_ratio_average", row.kept_ratio_average},
          {"evicted_entries", row.evicted_entries},
          {"evictions_per_text", row.evictions_per_text},
          {"peak_bytes_per_rank", row.peak_bytes_per_rank},
          {"ci95", {row.ci95.first, row.ci95.second}}};
}

// A row that was refused, and why.
struct Refusal {
  std::string policy, budget, reason;
};

std::string BudgetText(const BudgetStudy& study) {
  return study.budget > 0 ? std::to_string(study.budget) : fmt::format("{:.4g}", study.ratio);
}

struct Outcome {
  Json rows = Json::array();
  std::string table;
  std::vector<Refusal> refused;
};

Outcome Summarise(const EvalLossOptions& options, const std::vector<BudgetStudy>& studies,
                  const std::vector<EvalText>& texts) {
  Outcome outcome;
  outcome.table =
      fmt::format("{:<15} {:>7} {:<10} {:>7} {:>7} {:>7} {:>7} {:>8} {:>6} {:>6} {:>6} {:>19}\n", "policy", "budget",
                  "texts", "loss", "ratio", "low-H", "high-H", "KL", "top-1", "kept", "evict.", "95 % of loss - full");
  for (const BudgetStudy& study : studies) {
    for (size_t i = 0; i < options.policies.size(); ++i) {
      if (Status status = CheckEvictions(study.texts[i]); !status.ok()) {
        outcome.refused.push_back({options.policies[i], BudgetText(study), status.message()});
        continue;
      }
      const EvictionSettings settings = CasesOf(options, study, texts.front()).value()[i];
      for (const LossRow& row : SummariseLoss(study.texts[i])) {
        outcome.rows.push_back(RowJson(options.policies[i], settings, study, row));
        outcome.table += fmt::format(
            "{:<15} {:>7} {:<10} {:>7.4f} {:>7.4f} {:>7.4f} {:>7.4f} {:>8.5f} {:>6.4f} {:>6.4f} {:>6.1f} {:>9.5f} "
            "{:>9.5f}\n",
            options.policies[i], BudgetText(study), Printable(row.texts), row.loss, row.loss_ratio,
            row.loss_ratio_low_entropy, row.loss_ratio_high_entropy, row.kl, row.top1_agreement, row.kept_ratio_average,
            row.evictions_per_text, row.ci95.first, row.ci95.second);
      }
    }
  }
  return outcome;
}

Status Report(const EvalLossOptions& options, const Outcome& outcome, const OpenedModel& model, RankEngine& engine,
              int num_ranks, int threads, double tokens_per_second) {
  for (const Refusal& refusal : outcome.refused) {
    Note("no row for " + refusal.policy + " at budget " + refusal.budget + ": " + refusal.reason);
  }
  if (outcome.rows.empty()) {
    return InvalidArgument("every row was refused; the first reason: " + outcome.refused[0].reason);
  }
  const std::string backend = engine.backend().name() + ", " + engine.backend().kernels();
  if (!options.json) {
    PrintOut(outcome.table);
    PrintOut(fmt::format("{}, {}, {} rank(s) x {} thread(s), {}, KV cache {}: {:.0f} tokens/s of every case together\n",
                         Printable(model.config.name), backend, num_ranks, threads, options.numerics,
                         options.kv_cache_dtype, tokens_per_second));
    return CheckOutput();
  }
  Json refused = Json::array();
  for (const Refusal& refusal : outcome.refused) {
    refused.push_back({{"policy", refusal.policy}, {"budget", refusal.budget}, {"reason", refusal.reason}});
  }
  const Json json = {{"rows", outcome.rows},
                     {"refused", refused},
                     {"settings",
                      {{"sink_tokens", options.eviction.sink_tokens},
                       {"recent_tokens", options.eviction.recent_tokens},
                       {"protect_prompt", options.eviction.protect_prompt},
                       {"seed", options.seed},
                       {"kv_cache_dtype", options.kv_cache_dtype},
                       {"numerics", options.numerics}}},
                     {"run",
                      {{"model", model.config.name},
                       {"ranks", num_ranks},
                       {"threads_per_rank", threads},
                       {"backend", backend},
                       {"tokens_per_second", tokens_per_second}}}};
  PrintOut(json.dump() + "\n");
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
  Status reported = OkStatus();
  if (is_first) {
    const double rows = double(total_tokens) * double(options.policies.size() + 1);
    reported = Report(options, Summarise(options, studies, texts), model, *engine, communicator.size(), threads,
                      rows / seconds);
  }
  return agree(reported);
}

}  // namespace winnow
