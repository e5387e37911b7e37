// What `winnow eval loss` prints: a table for people, or the rows and settings of a result (launch/result_file.h).
// Rank 0; any thread.
#pragma once

#include <string>
#include <vector>

#include "launch/eval_loss_cases.h"
#include "launch/result_file.h"

namespace winnow {

struct LossOutcome {
  ResultJson rows = ResultJson::array();
  ResultJson refused = ResultJson::array();  // policy, budget, reason
  std::string table;                         // the rows with column names, for people
};

// One row a policy, budget and kind of text; rows that would mislead are refused.
LossOutcome SummariseStudies(const EvalLossOptions& options, const std::vector<BudgetStudy>& studies,
                             const std::vector<EvalText>& texts);

// Everything that changes a number, defaults written out. texts: how many, their tokens, and a hash of kinds, ids and
// tokens in order, by which a reader tells whether two results speak of the same ones.
ResultJson LossSettingsJson(const EvalLossOptions& options, const std::vector<EvalText>& texts,
                            int64_t max_text_tokens);

}  // namespace winnow
