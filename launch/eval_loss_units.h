// The work of `winnow eval loss`, in units of one text under all policies at one budget: dealt over groups of ranks,
// kept in a journal as they are finished, taken from it where a run goes on. Engine thread; collective.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "dist/communicator.h"
#include "engine/rank_engine.h"
#include "launch/eval_journal.h"
#include "launch/eval_loss_cases.h"

namespace winnow {

struct LossUnits {
  // The job's ranks are num_groups groups of as many ranks; rank r is in group r / (ranks of a group).
  Communicator& world;
  int num_groups;
  RankEngine& engine;    // of this rank's group
  EvalJournal* journal;  // of rank 0; null: none is kept
};

// What was read in this run, units from the journal left out.
struct LossWork {
  int64_t tokens = 0;   // of every case
  int64_t units = 0;    // all of them
  int64_t resumed = 0;  // from the journal
};

// Fills `studies` on rank 0, texts in order, the same for any number of groups and however often a run was interrupted.
// The Status is the same on all ranks; numerical errors end the job.
Result<LossWork> RunLossUnits(const EvalLossOptions& options, const std::vector<EvalText>& texts,
                              const LossUnits& units, std::vector<BudgetStudy>* studies);

// A unit's value: one object a policy, losses as they are.
nlohmann::ordered_json ScoresJson(const std::vector<TextScore>& scores);
// BadFile if it is not what ScoresJson has made for so many policies.
Result<std::vector<TextScore>> ParseScores(const nlohmann::ordered_json& json, size_t num_policies);

}  // namespace winnow
