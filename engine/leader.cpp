#include "engine/leader.h"

#include <algorithm>
#include <chrono>

namespace winnow {
namespace {

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Leader::Leader(ModelRunner& runner, Communicator& communicator, SchedulerLimits limits)
    : runner_(runner), communicator_(communicator), scheduler_([&] {
        limits.shards = runner.kv_shards();
        return limits;
      }()) {}

Status Leader::Submit(const Request& request) {
  WINNOW_RETURN_IF_ERROR(scheduler_.Submit(request));
  Progress& progress = progress_[request.id];
  progress.max_tokens = request.max_tokens;
  progress.stop_token_ids = request.stop_token_ids;
  progress.completion.request_id = request.id;
  return OkStatus();
}

Status Leader::Run(const Callbacks& callbacks) {
  while (true) {
    const StepPlan plan = scheduler_.Next();
    const double started_at = SecondsNow();
    for (const Request& request : plan.admitted) progress_.at(request.id).admitted_at = started_at;
    std::vector<std::byte> bytes = Serialise(plan);
    communicator_.Broadcast(bytes, 0);
    WINNOW_ASSIGN_OR_RETURN(const StepResult result, runner_.Execute(plan));
    if (callbacks.on_step) callbacks.on_step(plan);
    for (const SequenceReport& report : result.finished) {
      Completion& completion = progress_.at(report.request_id).completion;
      completion.kv = report;
      if (callbacks.on_completion) callbacks.on_completion(completion);
      progress_.erase(report.request_id);
    }
    const double now = SecondsNow();
    for (const StepResult::Token& token : result.tokens) TakeToken(token, now, callbacks);
    if (plan.stop) return OkStatus();
  }
}

void Leader::TakeToken(const StepResult::Token& token, double now, const Callbacks& callbacks) {
  Progress& progress = progress_.at(token.request_id);
  Completion& completion = progress.completion;
  if (!token.sampled.status.ok()) {
    completion.finish_reason = FinishReason::kError;
    completion.error = token.sampled.status;
    scheduler_.Finish(token.request_id);
    return;
  }
  if (completion.token_ids.empty()) {
    progress.first_token_at = now;
    completion.prefill_seconds = now - progress.admitted_at;
  }
  completion.decode_seconds = now - progress.first_token_at;
  completion.token_ids.push_back(token.sampled.token);
  completion.logprobs.push_back(token.sampled.logprob);
  if (callbacks.on_token) callbacks.on_token(token.request_id, token.sampled.token);
  const auto& stops = progress.stop_token_ids;
  if (std::find(stops.begin(), stops.end(), token.sampled.token) != stops.end()) {
    completion.finish_reason = FinishReason::kStop;
    scheduler_.Finish(token.request_id);
  } else if (int64_t(completion.token_ids.size()) == progress.max_tokens) {
    completion.finish_reason = FinishReason::kLength;
    scheduler_.Finish(token.request_id);
  } else {
    scheduler_.TokenSampled(token.request_id);
  }
}

}  // namespace winnow
