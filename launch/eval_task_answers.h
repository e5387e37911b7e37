// Answers to the requests of an evaluation: dealt over groups of ranks, kept in a journal as they are given, taken from
// it where a run goes on. Engine thread; collective.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "dist/communicator.h"
#include "engine/leader.h"
#include "engine/rank_engine.h"
#include "launch/eval_journal.h"

namespace winnow {

struct GivenAnswer {
  std::vector<int32_t> token_ids;
  FinishReason finish_reason = FinishReason::kLength;
  SequenceReport kv;
  Status error;  // why, if finish_reason is kError
};

struct AnswerRun {
  // The job's ranks are num_groups groups of as many ranks; rank r is in group r / (ranks of a group).
  Communicator& world;
  Communicator& group;
  int num_groups;
  RankEngine& engine;      // of this rank's group
  SchedulerLimits limits;  // of a group
  EvalJournal* journal;    // of rank 0; null: none is kept
};

struct AnswerWork {
  std::vector<GivenAnswer> answers;  // on rank 0: one a request
  int64_t resumed = 0;               // taken from the journal
  int64_t generated_tokens = 0;      // in this run
};

// requests, and their names for the journal: of rank 0, with ids 0, 1, 2... Answers are the same for any number of
// groups and however often a run was interrupted; those that end in an error are not kept in the journal. The Status
// is the same on all ranks; an error of a whole group ends the job.
Result<AnswerWork> AnswerRequests(const AnswerRun& run, const std::vector<Request>& requests,
                                  const std::vector<std::string>& names);

// Whether two runs ask the same: of everything that is in the requests.
uint64_t HashOf(const std::vector<Request>& requests);

// An answer's value in a journal.
nlohmann::ordered_json AnswerJson(const GivenAnswer& answer);
// BadFile if AnswerJson has not made it.
Result<GivenAnswer> ParseAnswer(const nlohmann::ordered_json& json);

}  // namespace winnow
