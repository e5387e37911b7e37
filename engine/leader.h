// Rank 0's loop: plans steps, sends them to the workers, executes them itself, and hands tokens and results to the
// front. Engine thread only; collective with RunWorker on all other ranks.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "engine/model_runner.h"
#include "engine/scheduler.h"

namespace winnow {

// The whole answer to one request.
struct Completion {
  int64_t request_id = 0;
  std::vector<int32_t> token_ids;  // generated; the stop token, if one was drawn, is the last
  std::vector<float> logprobs;     // one per token
  FinishReason finish_reason = FinishReason::kLength;
  Status error;  // why, if finish_reason is kError
  SequenceReport kv;
  double prefill_seconds = 0;  // from admission to the first token
  double decode_seconds = 0;   // from the first token to the last
};

class Leader {
 public:
  struct Callbacks {
    std::function<void(const StepPlan&)> on_step = nullptr;  // once its rows have gone through the model
    std::function<void(int64_t request_id, int32_t token)> on_token;
    std::function<void(const Completion&)> on_completion;
  };

  // Both must outlive the leader.
  // Shards of the limits are the runner's.
  Leader(ModelRunner& runner, Communicator& communicator, SchedulerLimits limits);

  // Queues a request, before Run. OutOfMemory if it could never run alone (Scheduler::Submit).
  Status Submit(const Request& request);

  // Works until every request is answered, then tells the workers to stop. A failure of one request is in its
  // Completion; the Status is that of ModelRunner::Execute, after which the group cannot go on.
  Status Run(const Callbacks& callbacks);

 private:
  struct Progress {
    int64_t max_tokens;
    std::vector<int32_t> stop_token_ids;
    Completion completion;
    double admitted_at = 0, first_token_at = 0;
  };
  void TakeToken(const StepResult::Token& token, double now, const Callbacks& callbacks);

  ModelRunner& runner_;
  Communicator& communicator_;
  Scheduler scheduler_;
  std::map<int64_t, Progress> progress_;  // by request id
};

}  // namespace winnow
