#include "launch/eval_loss_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kv/budget.h"

namespace winnow {
namespace {

int64_t BudgetOf(const BudgetStudy& study, const EvalText& text) {
  if (study.budget > 0) return study.budget;
  const KvShape one_head{.num_layers = 1, .num_kv_heads = 1, .entry_bytes = 0};
  return std::max<int64_t>(1, EntriesInRatio(study.ratio, int64_t(text.tokens.size()), one_head));
}

// A policy that acts after the prompt needs one, and something after it that tells what it did.
Status CheckPrompt(const EvictionSettings& settings, const EvalText& text) {
  if (settings.timing == EvictionTiming::kChunked) return OkStatus();
  if (text.prompt_tokens == 0) {
    return InvalidArgument(text.id + ", policy " + settings.policy +
                           ": it evicts once, after a prompt, and the text has none: give --prompt-tokens, or the "
                           "field \"prompt\"");
  }
  if (text.prompt_tokens + 2 <= int64_t(text.tokens.size())) return OkStatus();
  return InvalidArgument(text.id + ", policy " + settings.policy + ": expected a text of 2 tokens or more after its " +
                         std::to_string(text.prompt_tokens) + " prompt tokens, found " +
                         std::to_string(int64_t(text.tokens.size()) - text.prompt_tokens));
}

}  // namespace

std::string BudgetText(const BudgetStudy& study) {
  return study.budget > 0 ? std::to_string(study.budget) : fmt::format("{:.4g}", study.ratio);
}

std::vector<BudgetStudy> StudiesOf(const EvalLossOptions& options) {
  std::vector<BudgetStudy> studies;
  for (int64_t budget : options.budgets) studies.push_back({.budget = budget, .ratio = 0, .texts = {}});
  for (double ratio : options.ratios) studies.push_back({.budget = 0, .ratio = ratio, .texts = {}});
  for (BudgetStudy& study : studies) study.texts.resize(options.policies.size());
  return studies;
}

Result<std::vector<EvictionSettings>> CasesOf(const EvalLossOptions& options, const BudgetStudy& study,
                                              const EvalText& text) {
  std::vector<EvictionSettings> cases;
  for (const std::string& policy : options.policies) {
    EvictionSettings asked = options.eviction;
    asked.policy = policy;
    asked.budget = BudgetOf(study, text);
    auto settings = ResolveEviction(asked, {.prompt_tokens = text.prompt_tokens, .has_future = true});
    if (!settings.ok()) return InvalidArgument(text.id + ", policy " + policy + ": " + settings.status().message());
    WINNOW_RETURN_IF_ERROR(CheckPrompt(*settings, text));
    cases.push_back(std::move(settings).value());
  }
  return cases;
}

Result<int64_t> PoolSlots(const EvalLossOptions& options, const std::vector<EvalText>& texts, const KvShards& shards) {
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

}  // namespace winnow
