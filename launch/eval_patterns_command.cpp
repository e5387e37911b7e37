#include "launch/eval_patterns_command.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/printable_text.h"
#include "base/progress_bar.h"
#include "eval/pattern_study.h"
#include "launch/console.h"
#include "launch/eval_loss_cases.h"
#include "launch/eval_loss_result.h"
#include "launch/eval_loss_session.h"

namespace winnow {
namespace {

// Over all texts.
struct PatternTotals {
  std::vector<KindCounts> heads;                // [layer * KV heads + head]
  std::vector<std::vector<PatternCase>> cases;  // [budget][policy]
};

int64_t Sum(const KindCounts& counts) {
  int64_t sum = 0;
  for (int64_t count : counts) sum += count;
  return sum;
}

KindCounts Sum(const std::vector<KindCounts>& all) {
  KindCounts sum{};
  for (const KindCounts& counts : all) {
    for (size_t kind = 0; kind < counts.size(); ++kind) sum[kind] += counts[kind];
  }
  return sum;
}

double Share(int64_t part, int64_t whole) {
  return whole > 0 ? double(part) / double(whole) : 0;
}

// The share of each kind among all, in the order of kinds.
std::array<double, kNumSlotKinds> SharesOf(const KindCounts& counts) {
  std::array<double, kNumSlotKinds> shares{};
  for (size_t kind = 0; kind < shares.size(); ++kind) shares[kind] = Share(counts[kind], Sum(counts));
  return shares;
}

// Of each kind, what is held of what there is.
std::array<double, kNumSlotKinds> HeldShares(const KindCounts& held, const KindCounts& present) {
  std::array<double, kNumSlotKinds> shares{};
  for (size_t kind = 0; kind < shares.size(); ++kind) shares[kind] = Share(held[kind], present[kind]);
  return shares;
}

template <class Values>
ResultJson ByKind(const Values& values) {
  ResultJson json;
  for (size_t kind = 0; kind < kNumSlotKinds; ++kind) json[kSlotKindNames[kind]] = values[kind];
  return json;
}

std::string Columns(const std::array<double, kNumSlotKinds>& shares) {
  return fmt::format("{:>8.4f} {:>8.4f} {:>8.4f} {:>8.4f}", shares[0], shares[1], shares[2], shares[3]);
}
constexpr const char* kKindColumns = "  global semantic    local     idle";

Status CheckTexts(const EvalLossOptions& options, const std::vector<EvalText>& texts) {
  const int64_t least = LeastPatternTokens(options.eviction.interval);
  for (const EvalText& text : texts) {
    if (int64_t(text.tokens.size()) >= least) continue;
    return InvalidArgument(text.id + ": expected " + std::to_string(least) + " tokens or more, " +
                           std::to_string(kNearBlocks + kLeastFarBlocks) + " blocks of --kv-interval " +
                           std::to_string(options.eviction.interval) + ", found " + std::to_string(text.tokens.size()));
  }
  return OkStatus();
}

Status RunStudies(const EvalLossOptions& options, const EvalLossSession& session, Communicator& communicator,
                  const std::vector<BudgetStudy>& studies, ProgressBar* bar, PatternTotals* totals) {
  int64_t done_before = 0;
  totals->cases.assign(studies.size(), std::vector<PatternCase>(options.policies.size()));
  for (size_t budget = 0; budget < studies.size(); ++budget) {
    for (const EvalText& text : session.texts) {
      WINNOW_ASSIGN_OR_RETURN(const auto cases, CasesOf(options, studies[budget], text));
      const auto progress = [&](int64_t done) {
        if (bar != nullptr) bar->Update(uint64_t(done_before + done));
      };
      WINNOW_ASSIGN_OR_RETURN(const PatternScore score,
                              RunPatternStudy(*session.engine, communicator, text, cases, options.eviction.interval,
                                              options.seed, progress));
      done_before += PatternStudyTokens(text, cases);
      for (size_t i = 0; i < score.cases.size(); ++i) totals->cases[budget][i].Add(score.cases[i]);
      if (budget > 0) continue;  // kinds are those of the text
      totals->heads.resize(score.heads.size(), KindCounts{});
      for (size_t i = 0; i < score.heads.size(); ++i) totals->heads[i] = Sum({totals->heads[i], score.heads[i]});
    }
  }
  return OkStatus();
}

// "full" says how many pairs of each kind there are, the others what they hold of them.
ResultJson RowsJson(const EvalLossOptions& options, const std::vector<BudgetStudy>& studies,
                    const PatternTotals& totals, int64_t num_kv_heads) {
  ResultJson heads = ResultJson::array();
  for (size_t i = 0; i < totals.heads.size(); ++i) {
    ResultJson head = {{"layer", int64_t(i) / num_kv_heads}, {"head", int64_t(i) % num_kv_heads}};
    head.update(ByKind(totals.heads[i]));
    heads.push_back(std::move(head));
  }
  const KindCounts all = Sum(totals.heads);
  ResultJson rows = ResultJson::array();
  rows.push_back({{"policy", "full"}, {"pairs", ByKind(all)}, {"shares", ByKind(SharesOf(all))}, {"heads", heads}});
  for (size_t budget = 0; budget < studies.size(); ++budget) {
    for (size_t i = 0; i < options.policies.size(); ++i) {
      const PatternCase& one = totals.cases[budget][i];
      if (one.evictions == 0) continue;
      ResultJson layers = ResultJson::array();
      for (size_t layer = 0; layer < one.held.size(); ++layer) {
        layers.push_back(ByKind(HeldShares(one.held[layer], one.present[layer])));
      }
      rows.push_back({{"policy", options.policies[i]},
                      {"budget", studies[budget].budget > 0 ? ResultJson(studies[budget].budget) : ResultJson(nullptr)},
                      {"ratio", studies[budget].ratio > 0 ? ResultJson(studies[budget].ratio) : ResultJson(nullptr)},
                      {"interval", options.eviction.interval},
                      {"evictions", one.evictions},
                      {"held", ByKind(HeldShares(Sum(one.held), Sum(one.present)))},
                      {"held_per_layer", layers}});
    }
  }
  return rows;
}

ResultJson RefusedJson(const EvalLossOptions& options, const std::vector<BudgetStudy>& studies,
                       const PatternTotals& totals) {
  ResultJson refused = ResultJson::array();
  for (size_t budget = 0; budget < studies.size(); ++budget) {
    for (size_t i = 0; i < options.policies.size(); ++i) {
      if (totals.cases[budget][i].evictions > 0) continue;
      refused.push_back({{"policy", options.policies[i]},
                         {"budget", BudgetText(studies[budget])},
                         {"reason", "it never evicted: give longer texts, a smaller budget or a smaller interval"}});
    }
  }
  return refused;
}

void PrintTables(const EvalLossOptions& options, const std::vector<BudgetStudy>& studies, const PatternTotals& totals,
                 int64_t num_kv_heads) {
  std::string text = fmt::format("share of pairs by kind\nlayer head    pairs {}\n", kKindColumns);
  for (size_t i = 0; i < totals.heads.size(); ++i) {
    text += fmt::format("{:>5} {:>4} {:>8} {}\n", int64_t(i) / num_kv_heads, int64_t(i) % num_kv_heads,
                        Sum(totals.heads[i]), Columns(SharesOf(totals.heads[i])));
  }
  const KindCounts all = Sum(totals.heads);
  text += fmt::format("{:<10} {:>8} {}\n", "all", Sum(all), Columns(SharesOf(all)));
  text += fmt::format("\nshare of each kind that is held after an eviction\n{:<22} {:>7} {}\n", "policy", "budget",
                      kKindColumns);
  for (size_t budget = 0; budget < studies.size(); ++budget) {
    for (size_t i = 0; i < options.policies.size(); ++i) {
      const PatternCase& one = totals.cases[budget][i];
      if (one.evictions == 0) continue;
      text += fmt::format("{:<22} {:>7} {}\n", options.policies[i], BudgetText(studies[budget]),
                          Columns(HeldShares(Sum(one.held), Sum(one.present))));
    }
  }
  PrintOut(text);
}

Status Report(const EvalLossOptions& options, const EvalLossSession& session, const std::vector<BudgetStudy>& studies,
              const PatternTotals& totals, const RunEnvironment& environment, ResultJson timing) {
  const ResultJson refused = RefusedJson(options, studies, totals);
  for (const ResultJson& refusal : refused) {
    Note("no row for " + refusal["policy"].get<std::string>() + " at budget " + refusal["budget"].get<std::string>() +
         ": " + refusal["reason"].get<std::string>());
  }
  if (refused.size() == studies.size() * options.policies.size()) {
    return InvalidArgument("every row was refused; the first reason: " + refused[0]["reason"].get<std::string>());
  }
  const int64_t num_kv_heads = session.model->config().num_kv_heads;
  if (!options.json) {
    PrintTables(options, studies, totals, num_kv_heads);
    return CheckOutput();
  }
  const ResultJson result = MakeResult({.kind = "patterns",
                                        .command = options.command_line,
                                        .settings = LossSettingsJson(options, session.texts, session.max_text_tokens),
                                        .rows = RowsJson(options, studies, totals, num_kv_heads),
                                        .refused = refused,
                                        .timing = std::move(timing)},
                                       *session.model, environment);
  PrintOut(result.dump(-1, ' ', false, ResultJson::error_handler_t::replace) + "\n");
  return CheckOutput();
}

}  // namespace

Status RunEvalPatterns(const Status& arguments, EvalLossOptions options, Communicator& communicator) {
  WINNOW_ASSIGN_OR_RETURN(const EvalLossSession session, OpenEvalLoss(arguments, &options, communicator));
  WINNOW_RETURN_IF_ERROR(AgreeOnVerdict(communicator, CheckTexts(options, session.texts)));
  const std::vector<BudgetStudy> studies = StudiesOf(options);
  uint64_t total_tokens = 0;
  for (const BudgetStudy& study : studies) {
    for (const EvalText& text : session.texts) {
      total_tokens += uint64_t(PatternStudyTokens(text, CasesOf(options, study, text).value()));
    }
  }
  std::unique_ptr<ProgressBar> bar;
  if (communicator.rank() == 0) {
    bar = std::make_unique<ProgressBar>(
        ForStandardError({.label = "reading texts", .total = total_tokens, .step_name = "tokens"}));
  }
  const auto begin = std::chrono::steady_clock::now();
  PatternTotals totals;
  const Status status = RunStudies(options, session, communicator, studies, bar.get(), &totals);
  if (!status.ok()) communicator.Abort(status);  // the same on all ranks, but nobody can go on
  if (bar) bar->Finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const RunEnvironment environment = GatherEnvironment(communicator, session.engine->backend(),
                                                       /*tensor_parallel=*/communicator.size(), session.threads);
  Status reported = OkStatus();
  if (communicator.rank() == 0) {
    reported = Report(options, session, studies, totals, environment, {{"seconds", seconds}});
  }
  return AgreeOnVerdict(communicator, reported);
}

}  // namespace winnow
