#include "launch/eval_task_rows.h"

#include <algorithm>
#include <numeric>

#include "base/hash.h"
#include "launch/eviction_json.h"
#include "launch/number_text.h"
#include "model/whole_file.h"

namespace winnow {
namespace {

ResultJson BudgetJson(const EvalCase& asked) {
  return asked.budget > 0 ? ResultJson(asked.budget) : ResultJson(nullptr);
}

ResultJson RatioJson(const EvalCase& asked) {
  return asked.ratio > 0 ? ResultJson(asked.ratio) : ResultJson(nullptr);
}

}  // namespace

ResultJson CaseJson(const CaseAnswers& one) {
  const EvictionSettings& settings = one.settings;
  const bool evicts = settings.evicts(), is_chunked = settings.timing == EvictionTiming::kChunked;
  return {{"policy", one.asked.policy},
          {"scope", evicts ? ResultJson(Name(*settings.scope)) : ResultJson(nullptr)},
          {"allocation", evicts ? ResultJson(Name(*settings.allocation)) : ResultJson(nullptr)},
          {"budget", BudgetJson(one.asked)},
          {"ratio", RatioJson(one.asked)},
          {"interval", evicts && is_chunked ? ResultJson(settings.interval) : ResultJson(nullptr)}};
}

double KeptRatio(std::span<const EvalAnswer> answers) {
  double sum = 0;
  for (const EvalAnswer& answer : answers) sum += double(answer.kv.kept_entries) / double(answer.kv.full_entries);
  return sum / double(answers.size());
}

ResultJson CacheJson(std::span<const EvalAnswer> answers) {
  int64_t evicted = 0, evictions = 0, without = 0, peak_bytes = 0;
  for (const EvalAnswer& answer : answers) {
    evicted += answer.kv.evicted_entries;
    evictions += answer.kv.evictions;
    without += answer.kv.evictions == 0;
    const auto& peaks = answer.kv.peak_bytes_per_rank;
    peak_bytes = std::max(peak_bytes, std::accumulate(peaks.begin(), peaks.end(), int64_t(0)));
  }
  return {{"kept_ratio", KeptRatio(answers)},
          {"evicted_entries", evicted},
          {"evictions_per_answer", double(evictions) / double(answers.size())},
          {"answers_without_eviction", without},
          {"peak_bytes", peak_bytes}};
}

std::optional<std::string> ReasonToRefuse(const EvalCase& asked, std::span<const EvalAnswer> answers) {
  const auto evicted = [](const EvalAnswer& answer) { return answer.kv.evictions > 0; };
  if (asked.policy == "full" || std::any_of(answers.begin(), answers.end(), evicted)) return std::nullopt;
  return "it never evicted in any of " + std::to_string(answers.size()) +
         " answer(s): give a smaller budget or longer prompts";
}

ResultJson RefusalJson(const EvalCase& asked, const std::string& of_what, const std::string& reason) {
  return {{"policy", asked.policy}, {"budget", asked.BudgetText()}, {"of", of_what}, {"reason", reason}};
}

ResultJson TaskSettingsJson(const EvalTaskOptions& options) {
  ResultJson json;
  json["policies"] = options.policies;
  if (!options.budgets.empty()) json["budgets"] = options.budgets;
  if (!options.ratios.empty()) json["ratios"] = options.ratios;
  json.update(SharedEvictionJson(options.eviction));
  json["query_aware"] = options.query_aware;
  json["seed"] = options.seed;
  json["kv_cache_dtype"] = options.kv_cache_dtype;
  json["numerics"] = options.numerics;
  json["max_tokens"] = options.max_new_tokens ? ResultJson(*options.max_new_tokens) : ResultJson(nullptr);
  return json;
}

ResultJson PromptsJson(const std::vector<EvalPrompt>& prompts) {
  uint64_t hash = 0;
  int64_t tokens = 0;
  for (const EvalPrompt& prompt : prompts) {
    hash = HashWords({hash, uint64_t(prompt.tokens.size()), uint64_t(prompt.compressed_tokens),
                      uint64_t(prompt.max_new_tokens), uint64_t(prompt.choice_index)});
    for (int32_t token : prompt.tokens) hash = HashWords({hash, uint64_t(uint32_t(token))});
    tokens += int64_t(prompt.tokens.size());
  }
  return {{"count", prompts.size()}, {"tokens", tokens}, {"hash", Hex(hash)}};
}

Status WriteAnswers(const std::string& path, const std::vector<EvalPrompt>& prompts,
                    const std::vector<CaseAnswers>& cases) {
  std::string lines;
  for (size_t i = 0; i < prompts.size(); ++i) {
    for (const CaseAnswers& one : cases) {
      const EvalAnswer& answer = one.answers[i];
      const ResultJson line = {{"prompt", prompts[i].where},
                               {"policy", one.asked.policy},
                               {"budget", BudgetJson(one.asked)},
                               {"ratio", RatioJson(one.asked)},
                               {"choice_index", prompts[i].choice_index},
                               {"text", answer.text},
                               {"tokens", answer.token_ids.size()},
                               {"finish_reason", Name(answer.finish_reason)}};
      lines += line.dump(-1, ' ', false, ResultJson::error_handler_t::replace) + "\n";
    }
  }
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(lines.data()), lines.size());
  return WriteWholeFile(path, std::span(&bytes, 1));
}

}  // namespace winnow
