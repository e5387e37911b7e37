#include "eval/loss_report.h"

#include <algorithm>

#include "eval/bootstrap.h"

namespace winnow {
namespace {

constexpr int64_t kLeastEvictions = 8;
constexpr uint64_t kBootstrapSeed = 95;  // fixed: the interval belongs to the numbers, not to the run

Status CheckEvictionsAfterPrefill(const std::vector<ScoredText>& texts) {
  int64_t evictions = 0;
  for (const ScoredText& text : texts) {
    evictions += text.score.cache.evictions;
    if (text.score.cache.evictions > 0) continue;
    return InvalidArgument("text " + text.id + " saw no eviction: its prompt is not longer than the budget");
  }
  if (evictions >= kLeastEvictions) return OkStatus();
  return InvalidArgument("the texts saw " + std::to_string(evictions) + " evictions together, one each; at least " +
                         std::to_string(kLeastEvictions) + " are needed: give more texts");
}

double Ratio(double numerator, double denominator) {
  return denominator != 0 ? numerator / denominator : 0;
}

LossRow Summarise(const std::string& name, const std::vector<const ScoredText*>& texts) {
  LossRow row;
  row.texts = name;
  row.num_texts = int64_t(texts.size());
  TextScore sum;
  std::vector<PairedDocument> differences;
  double evictions = 0;
  for (const ScoredText* text : texts) {
    const TextScore& score = text->score;
    sum.positions += score.positions;
    sum.loss += score.loss;
    sum.full_loss += score.full_loss;
    sum.high_entropy_loss += score.high_entropy_loss;
    sum.high_entropy_full_loss += score.high_entropy_full_loss;
    sum.kl += score.kl;
    sum.top1_agreement += score.top1_agreement;
    row.kept_ratio += Ratio(double(score.cache.kept_entries), double(score.cache.full_entries));
    row.kept_ratio_average += Ratio(score.kept_ratio_sum, double(score.tokens));
    row.evicted_entries += score.cache.evicted_entries;
    evictions += double(score.cache.evictions);
    row.peak_bytes_per_rank.resize(score.cache.peak_bytes_per_rank.size(), 0);
    for (size_t rank = 0; rank < row.peak_bytes_per_rank.size(); ++rank) {
      row.peak_bytes_per_rank[rank] = std::max(row.peak_bytes_per_rank[rank], score.cache.peak_bytes_per_rank[rank]);
    }
    AddLoad(score.cache.load, &row.load);
    differences.push_back({score.loss - score.full_loss, score.positions});
  }
  const double positions = double(sum.positions), num_texts = double(texts.size());
  row.positions = sum.positions;
  row.loss = Ratio(sum.loss, positions);
  row.full_loss = Ratio(sum.full_loss, positions);
  row.loss_ratio = Ratio(sum.loss, sum.full_loss);
  row.loss_ratio_low_entropy = Ratio(sum.low_entropy_loss(), sum.low_entropy_full_loss());
  row.loss_ratio_high_entropy = Ratio(sum.high_entropy_loss, sum.high_entropy_full_loss);
  row.kl = Ratio(sum.kl, positions);
  row.top1_agreement = Ratio(double(sum.top1_agreement), positions);
  row.kept_ratio = Ratio(row.kept_ratio, num_texts);
  row.kept_ratio_average = Ratio(row.kept_ratio_average, num_texts);
  row.evictions_per_text = Ratio(evictions, num_texts);
  row.ci95 = BootstrapInterval95(differences, kBootstrapSeed);
  return row;
}

}  // namespace

Status CheckEvictions(const std::vector<ScoredText>& texts, EvictionTiming timing) {
  if (timing == EvictionTiming::kAfterPrefill) return CheckEvictionsAfterPrefill(texts);
  for (const ScoredText& text : texts) {
    if (text.score.cache.evictions >= kLeastEvictions) continue;
    return InvalidArgument("text " + text.id + " (" + std::to_string(text.score.tokens + 1) + " tokens) saw " +
                           std::to_string(text.score.cache.evictions) + " evictions, at least " +
                           std::to_string(kLeastEvictions) +
                           " are needed: give longer texts, a smaller budget or a smaller interval");
  }
  return OkStatus();
}

std::vector<LossRow> SummariseLoss(const std::vector<ScoredText>& texts) {
  std::vector<const ScoredText*> all;
  std::vector<std::string> kinds;
  for (const ScoredText& text : texts) {
    all.push_back(&text);
    if (std::find(kinds.begin(), kinds.end(), text.kind) == kinds.end()) kinds.push_back(text.kind);
  }
  std::vector<LossRow> rows = {Summarise("all", all)};
  if (kinds.size() < 2) return rows;
  for (const std::string& kind : kinds) {
    std::vector<const ScoredText*> chosen;
    std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
                 [&](const ScoredText* text) { return text->kind == kind; });
    rows.push_back(Summarise(kind, chosen));
  }
  return rows;
}

}  // namespace winnow
