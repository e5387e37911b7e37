#include "launch/eval_loss_result.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/printable_text.h"
#include "launch/eviction_json.h"
#include "launch/load_json.h"
#include "launch/number_text.h"

namespace winnow {
namespace {

ResultJson RowJson(const std::string& policy, const EvictionSettings& settings, const BudgetStudy& study,
                   const LossRow& row) {
  return {{"policy", policy},
          {"scope", Name(*settings.scope)},
          {"allocation", Name(*settings.allocation)},
          {"budget", study.budget > 0 ? ResultJson(study.budget) : ResultJson(nullptr)},
          {"ratio", study.ratio > 0 ? ResultJson(study.ratio) : ResultJson(nullptr)},
          {"interval", settings.interval},
          {"timing", Name(settings.timing)},
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
          {"load_per_rank", LoadJson(row.load)},
          {"ci95", {row.ci95.first, row.ci95.second}}};
}

std::string RowLine(const std::string& policy, const BudgetStudy& study, const LossRow& row) {
  return fmt::format(
      "{:<15} {:>7} {:<10} {:>7.4f} {:>7.4f} {:>7.4f} {:>7.4f} {:>8.5f} {:>6.4f} {:>6.4f} {:>6.1f} {:>9.5f} {:>9.5f}\n",
      policy, BudgetText(study), Printable(row.texts), row.loss, row.loss_ratio, row.loss_ratio_low_entropy,
      row.loss_ratio_high_entropy, row.kl, row.top1_agreement, row.kept_ratio_average, row.evictions_per_text,
      row.ci95.first, row.ci95.second);
}

uint64_t HashOf(const std::string& text) {
  uint64_t hash = text.size();
  for (unsigned char byte : text) hash = HashWords({hash, byte});
  return hash;
}

ResultJson TextsJson(const std::vector<EvalText>& texts) {
  uint64_t hash = 0;
  int64_t tokens = 0;
  for (const EvalText& text : texts) {
    hash = HashWords(
        {hash, HashOf(text.id), HashOf(text.kind), uint64_t(text.tokens.size()), uint64_t(text.prompt_tokens)});
    for (int32_t token : text.tokens) hash = HashWords({hash, uint64_t(uint32_t(token))});
    tokens += int64_t(text.tokens.size());
  }
  return {{"count", texts.size()}, {"tokens", tokens}, {"hash", Hex(hash)}};
}

template <class T>
ResultJson OrNull(const std::optional<T>& value) {
  return value ? ResultJson(*value) : ResultJson(nullptr);
}

}  // namespace

LossOutcome SummariseStudies(const EvalLossOptions& options, const std::vector<BudgetStudy>& studies,
                             const std::vector<EvalText>& texts) {
  LossOutcome outcome;
  outcome.table =
      fmt::format("{:<15} {:>7} {:<10} {:>7} {:>7} {:>7} {:>7} {:>8} {:>6} {:>6} {:>6} {:>19}\n", "policy", "budget",
                  "texts", "loss", "ratio", "low-H", "high-H", "KL", "top-1", "kept", "evict.", "95 % of loss - full");
  for (const BudgetStudy& study : studies) {
    for (size_t i = 0; i < options.policies.size(); ++i) {
      const EvictionSettings settings = CasesOf(options, study, texts.front()).value()[i];
      if (Status status = CheckEvictions(study.texts[i], settings.timing); !status.ok()) {
        outcome.refused.push_back(
            {{"policy", options.policies[i]}, {"budget", BudgetText(study)}, {"reason", status.message()}});
        continue;
      }
      for (const LossRow& row : SummariseLoss(study.texts[i])) {
        outcome.rows.push_back(RowJson(options.policies[i], settings, study, row));
        outcome.table += RowLine(options.policies[i], study, row);
      }
    }
  }
  return outcome;
}

ResultJson LossSettingsJson(const EvalLossOptions& options, const std::vector<EvalText>& texts,
                            int64_t max_text_tokens) {
  ResultJson settings;
  settings["policies"] = options.policies;
  settings["budgets"] = options.budgets;
  settings["ratios"] = options.ratios;
  settings.update(SharedEvictionJson(options.eviction));
  settings["prompt_tokens"] = OrNull(options.prompt_tokens);
  settings["seed"] = options.seed;
  settings["kv_cache_dtype"] = options.kv_cache_dtype;
  settings["numerics"] = options.numerics;
  settings["text_files"] = options.text_paths;
  settings["split"] = OrNull(options.split);
  settings["max_texts"] = OrNull(options.max_texts);
  settings["max_text_tokens"] = max_text_tokens;
  settings["texts"] = TextsJson(texts);
  return settings;
}

}  // namespace winnow
