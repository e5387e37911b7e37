#include "launch/eval_loss_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "policies/eviction_policy.h"

namespace winnow {

void AddEvalLossFlags(CLI::App& command, EvalLossOptions* o) {
  command.add_option("-m,--model", o->model_path, "model file (GGUF)")->required();
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
  command.add_option("--kv-interval", o->eviction.interval, "evict when a head holds budget + interval tokens")
      ->capture_default_str();
  command.add_option("--kv-sink-tokens", o->eviction.sink_tokens, "first tokens of the text, never evicted")
      ->capture_default_str();
  command.add_option("--kv-recent-tokens", o->eviction.recent_tokens, "newest tokens, never evicted")
      ->capture_default_str();
  command.add_flag("--kv-protect-prompt", o->eviction.protect_prompt, "the documents' \"prompt\" is never evicted");
  command
      .add_option_function<std::string>(
          "--kv-scope",
          [o](const std::string& name) {
            const auto scope = ParseEvictionScope(name);
            if (!scope.ok()) throw CLI::ValidationError(scope.status().message());
            o->eviction.scope = *scope;
          },
          "who shares a kept set: head, layer or sequence; default: each policy's own")
      ->type_name("TEXT");
  command.add_option("--seed", o->seed, "of random eviction")->capture_default_str();
  command.add_option("--split", o->split, "only documents of this split");
  command.add_option("--max-texts", o->max_texts, "documents of each kind at most, the first ones");
  command.add_option("--max-text-tokens", o->max_text_tokens, "longer texts are cut there; default: the context");
  command.add_option("--kv-cache-dtype", o->kv_cache_dtype, "bf16 or f32")->capture_default_str();
  command.add_option("--numerics", o->numerics, "exact or fast")->capture_default_str();
  command.add_option("-t,--threads", o->threads, "threads per rank; default: the rank's share of its host's cores");
  command.add_option("--backend", o->backend, "cpu; for tests: guard, reference, reference-float")
      ->capture_default_str();
  command.add_option("--cpu-kernels", o->cpu_kernels, "auto, or by name; the bits are the same")->capture_default_str();
  command.add_flag("--check-ranks", o->check_ranks, "compare all ranks' states after every step");
  command.add_flag("--json", o->json, "one JSON object on standard output, nothing else");
}

Status CheckEvalLossOptions(const EvalLossOptions& o) {
  const auto found = [](const std::string& what, const auto& value) {
    return InvalidArgument(what + ", found " + std::to_string(value));
  };
  for (int64_t budget : o.budgets) {
    if (budget < 1) return found("--kv-budget: expected 1 or more", budget);
  }
  for (double ratio : o.ratios) {
    if (!(ratio > 0 && ratio < 1)) return found("--kv-ratio: expected above 0 and below 1", ratio);
  }
  for (const std::string& name : o.policies) {
    WINNOW_ASSIGN_OR_RETURN(const auto policy, MakePolicy(name));
    if (!policy->evicts())
      return InvalidArgument("--policies: " + name + " never evicts; every row is compared with it");
    if (policy->timing() != EvictionTiming::kChunked) {
      return InvalidArgument("--policies: " + name + " evicts once, after a prompt; a text that is read here has none");
    }
    if (std::count(o.policies.begin(), o.policies.end(), name) > 1) {
      return InvalidArgument("--policies: " + name + " is given twice");
    }
  }
  if (o.max_texts && *o.max_texts < 1) return found("--max-texts: expected 1 or more", *o.max_texts);
  if (o.max_text_tokens && *o.max_text_tokens < 2) {
    return found("--max-text-tokens: expected 2 or more", *o.max_text_tokens);
  }
  if (o.threads && *o.threads < 1) return found("--threads: expected 1 or more", *o.threads);
  if (o.numerics != "exact" && o.numerics != "fast") {
    return InvalidArgument("--numerics: expected exact or fast, found '" + o.numerics + "'");
  }
  if (o.kv_cache_dtype != "bf16" && o.kv_cache_dtype != "f32") {
    return InvalidArgument("--kv-cache-dtype: expected bf16 or f32, found '" + o.kv_cache_dtype + "'");
  }
  return OkStatus();
}

}  // namespace winnow
