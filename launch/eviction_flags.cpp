#include "launch/eviction_flags.h"

#include <CLI/CLI.hpp>
#include <string>

#include "policies/eviction_policy.h"

namespace winnow {

void AddEvictionFlags(CLI::App& command, EvictionSettings* settings) {
  command.add_option("--kv-interval", settings->interval, "evict when a head holds budget + interval tokens")
      ->capture_default_str();
  command.add_option("--kv-sink-tokens", settings->sink_tokens, "first tokens of the text, never evicted")
      ->capture_default_str();
  command
      .add_option("--kv-recent-tokens", settings->recent_tokens,
                  "newest tokens, never evicted; h2o: at least half of the budget; r-kv: at least 8")
      ->capture_default_str();
  command.add_flag("--kv-protect-prompt", settings->protect_prompt, "the whole prompt is never evicted");
  const auto add_choice = [&](const char* flag, auto parse, auto* to, const char* help) {
    command
        .add_option_function<std::string>(
            flag,
            [parse, to](const std::string& name) {
              const auto choice = parse(name);
              if (!choice.ok()) throw CLI::ValidationError(choice.status().message());
              *to = *choice;
            },
            help)
        ->type_name("TEXT");
  };
  add_choice("--kv-scope", ParseEvictionScope, &settings->scope,
             "who shares a kept set: head, layer or sequence; default: the policy's own");
  add_choice("--kv-allocation", ParseBudgetAllocation, &settings->allocation,
             "which heads compete for the sum of their budgets: none (head), those of a layer, or all (sequence); "
             "default: the policy's own");
}

}  // namespace winnow
