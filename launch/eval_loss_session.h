// What `winnow eval loss` and `winnow eval patterns` have in common: arguments agreed on, model, texts and engine on
// every rank. Engine thread; collective.
#pragma once

#include <memory>
#include <vector>

#include "launch/eval_loss_options.h"
#include "launch/eval_texts.h"
#include "launch/model_session.h"

namespace winnow {

struct EvalLossSession {
  std::unique_ptr<const Checkpoint> model;
  std::vector<EvalText> texts;  // the same on all ranks
  int64_t max_text_tokens = 0;  // where they were cut
  int threads = 1;
  std::unique_ptr<Communicator> part;  // this rank's group; none: all ranks share the model
  std::unique_ptr<RankEngine> engine;  // room for every study, with attention mass
};

// `arguments`: what parsing them gave on this rank. The options get the words of the model's tokenizer that a policy
// may need (launch/replay_prompt.h). The Status is the same on all ranks.
Result<EvalLossSession> OpenEvalLoss(const Status& arguments, EvalLossOptions* options, Communicator& communicator);

}  // namespace winnow
