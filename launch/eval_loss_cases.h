// What `winnow eval loss` has to run: policies by budgets, as settings of each text. The same on every rank. Any
// thread.
#pragma once

#include <string>
#include <vector>

#include "eval/loss_report.h"
#include "launch/eval_loss_options.h"

namespace winnow {

// All policies at one budget: they are due at the same tokens, so they share the steps of a text.
struct BudgetStudy {
  int64_t budget = 0;  // tokens, or
  double ratio = 0;    // of the text
  // [policy][text], in the order of the options and of the texts
  std::vector<std::vector<ScoredText>> texts;
};

// "256", "0.25"
std::string BudgetText(const BudgetStudy& study);

// Budgets first, then ratios, in the order asked; no texts yet.
std::vector<BudgetStudy> StudiesOf(const EvalLossOptions& options);

// Every policy's settings at the study's budget of this text.
Result<std::vector<EvictionSettings>> CasesOf(const EvalLossOptions& options, const BudgetStudy& study,
                                              const EvalText& text);

// Checks every case before any work, and finds how many slots the largest text needs.
Result<int64_t> PoolSlots(const EvalLossOptions& options, const std::vector<EvalText>& texts, const KvShards& shards);

}  // namespace winnow
