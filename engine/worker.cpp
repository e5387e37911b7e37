#include "engine/worker.h"

namespace winnow {

Status RunWorker(ModelRunner& runner, Communicator& communicator) {
  while (true) {
    std::vector<std::byte> bytes;
    communicator.Broadcast(bytes, 0);
    const StepPlan plan = ParseStepPlan(bytes);
    WINNOW_RETURN_IF_ERROR(runner.Execute(plan).status());
    if (plan.stop) return OkStatus();
  }
}

}  // namespace winnow
