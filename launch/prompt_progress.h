// Says on standard error how far a long prompt has been read, so that nobody takes a slow machine for one that hangs.
// Nothing is shown of prompts that take less than two seconds. Rank 0; the engine thread calls it, a thread of its own
// draws, since one step of a large model may take longer than a line should wait.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/progress_bar.h"
#include "engine/step_plan.h"

namespace winnow {

class PromptProgress {
 public:
  explicit PromptProgress(const std::vector<Request>& requests);
  ~PromptProgress();

  // These rows have gone through the model.
  void StepDone(const StepPlan& plan);

 private:
  void DrawUntilFinished();

  std::map<int64_t, int64_t> unread_;  // prompt tokens of each request; engine thread only
  std::mutex mutex_;                   // guards what follows
  std::condition_variable finished_changed_;
  uint64_t read_ = 0, total_ = 0;
  bool finished_ = false;
  ProgressBar bar_;
  std::thread drawer_;
};

}  // namespace winnow
