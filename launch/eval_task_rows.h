// What the rows of all evaluations with generation have in common, and the file of answers. Rank 0; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/eval_task_run.h"

namespace winnow {

// What a row says of its policy: policy, scope, allocation, budget, ratio, interval.
ResultJson CaseJson(const CaseAnswers& one);

// What became of the caches of some answers: kept_ratio, evicted_entries, evictions_per_answer,
// answers_without_eviction, peak_bytes (the most of one answer, over all ranks).
ResultJson CacheJson(std::span<const EvalAnswer> answers);
double KeptRatio(std::span<const EvalAnswer> answers);

// Why a row would mislead: the policy never evicted. None for the full cache.
std::optional<std::string> ReasonToRefuse(const EvalCase& asked, std::span<const EvalAnswer> answers);
// `of_what`: "task vt", "length 1024, depth 50".
ResultJson RefusalJson(const EvalCase& asked, const std::string& of_what, const std::string& reason);

// The settings that all of them share.
ResultJson TaskSettingsJson(const EvalTaskOptions& options);

// count, tokens, and a hash of all prompts in order: equal means the same prompts, whatever files they were made of.
ResultJson PromptsJson(const std::vector<EvalPrompt>& prompts);

// One line an answer: prompt, policy, budget, ratio, choice_index, text, tokens, finish_reason. BadFile if it cannot
// be written.
Status WriteAnswers(const std::string& path, const std::vector<EvalPrompt>& prompts,
                    const std::vector<CaseAnswers>& cases);

}  // namespace winnow
