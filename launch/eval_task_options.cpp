#include "launch/eval_task_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "launch/eval_list_flags.h"
#include "launch/eviction_flags.h"
#include "launch/generate_options.h"
#include "policies/eviction_policy.h"

namespace winnow {

void AddEvalTaskFlags(CLI::App& command, EvalTaskOptions* o) {
  AddEngineFlags(command, o);
  command.add_option("--policies", o->policies, "policies to compare, with commas between")->delimiter(',')->required();
  auto* budget = command.add_option_group("budget", "what every KV head keeps after an eviction");
  budget->add_option("--kv-budget", o->budgets, "tokens, with commas between")->delimiter(',');
  budget->add_option("--kv-ratio", o->ratios, "shares of what is compressed, with commas between")->delimiter(',');
  budget->require_option(1);
  AddEvictionFlags(command, &o->eviction);
  command.add_option("--seed", o->seed, "of samples, sampled answers and random eviction")->capture_default_str();
  command.add_option("--max-tokens", o->max_new_tokens, "tokens of an answer at most; default: the task's own");
  command
      .add_option("--max-num-seqs,--max-running-requests,--parallel", o->max_num_seqs,
                  "answers worked on at the same time")
      ->capture_default_str();
  command
      .add_option("--max-num-batched-tokens,--chunked-prefill-size", o->max_num_batched_tokens,
                  "token rows of one step, at most " + std::to_string(kMaxBatchedTokens))
      ->capture_default_str();
  command.add_option("--answers", o->answers_path, "write every answer here, one JSON object a line");
  AddEvalRunFlags(command, o);
  command.add_flag("--json", o->json, "one JSON object on standard output, nothing else");
}

Status CheckEvalTaskOptions(const EvalTaskOptions& o, int num_ranks) {
  WINNOW_RETURN_IF_ERROR(CheckEvalRunFlags(o, o, num_ranks));
  const auto at_least_one = [](const char* flag, int64_t value) {
    return value >= 1 ? OkStatus()
                      : InvalidArgument(std::string(flag) + ": expected 1 or more, found " + std::to_string(value));
  };
  WINNOW_RETURN_IF_ERROR(CheckPoliciesAndBudgets(o.policies, o.budgets, o.ratios));
  for (const std::string& name : o.policies) {
    if (MakePolicy(name).value()->observations().future) {
      return InvalidArgument("--policies: " + name + " looks at the rest of a text, which an answer does not have yet");
    }
  }
  if (o.max_new_tokens) WINNOW_RETURN_IF_ERROR(at_least_one("--max-tokens", *o.max_new_tokens));
  WINNOW_RETURN_IF_ERROR(at_least_one("--max-num-seqs", o.max_num_seqs));
  WINNOW_RETURN_IF_ERROR(at_least_one("--max-num-batched-tokens", o.max_num_batched_tokens));
  if (o.max_num_batched_tokens > kMaxBatchedTokens) {
    return InvalidArgument("--max-num-batched-tokens: expected at most " + std::to_string(kMaxBatchedTokens) +
                           ", found " + std::to_string(o.max_num_batched_tokens));
  }
  return OkStatus();
}

EvictionSettings EvalCase::Asked(const EvictionSettings& shared) const {
  EvictionSettings asked = shared;
  asked.policy = policy;
  asked.budget = budget;
  if (ratio > 0) asked.budget_ratio = ratio;
  return asked;
}

std::string EvalCase::BudgetText() const {
  if (budget > 0) return std::to_string(budget);
  return ratio > 0 ? fmt::format("{:.4g}", ratio) : "-";
}

std::vector<EvalCase> CasesOf(const EvalTaskOptions& options) {
  std::vector<EvalCase> cases(1);
  for (int64_t budget : options.budgets) {
    for (const std::string& policy : options.policies) cases.push_back({policy, budget, 0});
  }
  for (double ratio : options.ratios) {
    for (const std::string& policy : options.policies) cases.push_back({policy, 0, ratio});
  }
  return cases;
}

}  // namespace winnow
