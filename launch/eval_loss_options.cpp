#include "launch/eval_loss_options.h"

#include <CLI/CLI.hpp>

#include "launch/eval_list_flags.h"
#include "launch/eviction_flags.h"
#include "policies/eviction_policy.h"

namespace winnow {

void AddEvalLossFlags(CLI::App& command, EvalLossOptions* o) {
  AddEngineFlags(command, o);
  command
      .add_option("--text", o->text_paths,
                  "files to read: .jsonl with one document a line (\"text\", and \"id\", \"kind\", \"split\", "
                  "\"prompt\" if wanted), others as one document each")
      ->required();
  command.add_option("--policies", o->policies, "policies to compare, with commas between")->delimiter(',')->required();
  auto* budget = command.add_option_group("budget", "what every KV head keeps after an eviction");
  budget->add_option("--kv-budget", o->budgets, "tokens, with commas between")->delimiter(',');
  budget->add_option("--kv-ratio", o->ratios, "shares of each text, with commas between")->delimiter(',');
  budget->require_option(1);
  AddEvictionFlags(command, &o->eviction);
  command.add_option("--prompt-tokens", o->prompt_tokens,
                     "the first tokens of every text are its prompt, for policies that evict once after it and for "
                     "--kv-protect-prompt; default: its \"prompt\"");
  command.add_option("--seed", o->seed, "of random eviction")->capture_default_str();
  command.add_option("--split", o->split, "only documents of this split");
  command.add_option("--max-texts", o->max_texts, "documents of each kind at most, the first ones");
  command.add_option("--max-text-tokens", o->max_text_tokens, "longer texts are cut there; default: the context");
  command.add_flag("--json", o->json, "one JSON object on standard output, nothing else");
  RefuseOddIntegers(command);
}

Status CheckEvalLossOptions(const EvalLossOptions& o, int num_ranks) {
  WINNOW_RETURN_IF_ERROR(CheckEvalRunFlags(o, o, num_ranks));
  const auto found = [](const std::string& what, const auto& value) {
    return InvalidArgument(what + ", found " + std::to_string(value));
  };
  WINNOW_RETURN_IF_ERROR(CheckPoliciesAndBudgets(o.policies, o.budgets, o.ratios));
  if (o.prompt_tokens && *o.prompt_tokens < 1) return found("--prompt-tokens: expected 1 or more", *o.prompt_tokens);
  if (o.max_texts && *o.max_texts < 1) return found("--max-texts: expected 1 or more", *o.max_texts);
  if (o.max_text_tokens && *o.max_text_tokens < 2) {
    return found("--max-text-tokens: expected 2 or more", *o.max_text_tokens);
  }
  return OkStatus();
}

}  // namespace winnow
