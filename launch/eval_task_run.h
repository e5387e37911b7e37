// The run behind the evaluations with generation: rank 0 makes prompts, every prompt is answered with a full cache and
// under every policy and budget, all in one batch, and rank 0 judges the answers. Answers depend on no batch and no
// rank count (E1, E2). Engine thread; collective.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "dist/communicator.h"
#include "engine/leader.h"
#include "launch/eval_task_options.h"
#include "launch/result_file.h"
#include "model/tokenizer.h"

namespace winnow {

struct EvalPrompt {
  std::string where;  // for messages: "vt, sample 3", "gsm8k.jsonl line 7"
  std::vector<int32_t> tokens;
  // The first tokens, which are the prompt for policies: those that act after the prompt evict here, and a ratio is a
  // share of them. What follows is read into the compressed cache.
  int64_t compressed_tokens = 0;
  int64_t max_new_tokens = 0;
  SamplingParams sampling;
  int64_t choice_index = 0;
};

struct EvalAnswer {
  std::string text;
  std::vector<int32_t> token_ids;
  FinishReason finish_reason = FinishReason::kLength;
  SequenceReport kv;
};

// Of one case: [prompt].
struct CaseAnswers {
  EvalCase asked;
  EvictionSettings settings;  // resolved for the first prompt
  std::vector<EvalAnswer> answers;
};

struct EvalTask {
  std::string kind;  // of the rows: "ruler"
  // Rank 0.
  std::function<Result<std::vector<EvalPrompt>>(const Tokenizer&, const ModelConfig&)> prepare;
  struct Outcome {
    ResultJson rows = ResultJson::array(), refused = ResultJson::array();
    ResultJson settings;  // the task's own; the shared ones are added
    std::string table;    // for people
  };
  std::function<Outcome(const std::vector<CaseAnswers>&)> summarise;
};

// Makes, answers, judges and reports. What is wrong is found before any work where it can be.
Status RunEvalTask(const Status& arguments, const EvalTaskOptions& options, const EvalTask& task,
                   Communicator& communicator);

}  // namespace winnow
