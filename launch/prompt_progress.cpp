#include "launch/prompt_progress.h"

#include <algorithm>
#include <chrono>

#include "engine/resume_point.h"

namespace winnow {
namespace {

constexpr std::chrono::milliseconds kSilence{2000};
constexpr std::chrono::milliseconds kRedraw{250};
constexpr double kPlainInterval_s = 4.5;  // with kRedraw: a line at least every 5 seconds

// Tokens of the prompt that a saved cache does not hold already.
int64_t Unread(const Request& request) {
  return int64_t(request.prompt.size()) - (request.resume != nullptr ? request.resume->cache.tokens_seen : 0);
}

uint64_t Unread(const std::vector<Request>& requests) {
  int64_t sum = 0;
  for (const Request& request : requests) sum += Unread(request);
  return uint64_t(sum);
}

ProgressOptions Options(uint64_t total) {
  ProgressOptions options = ForStandardError({.label = "reading prompts", .total = total, .step_name = "tokens"});
  options.plain_interval_s = kPlainInterval_s;
  return options;
}

}  // namespace

PromptProgress::PromptProgress(const std::vector<Request>& requests) : total_(Unread(requests)), bar_(Options(total_)) {
  for (const Request& request : requests) unread_[request.id] = Unread(request);
  drawer_ = std::thread([this] { DrawUntilFinished(); });
}

PromptProgress::~PromptProgress() {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  finished_changed_.notify_all();
  if (drawer_.joinable()) drawer_.join();
}

void PromptProgress::StepDone(const StepPlan& plan) {
  uint64_t read = 0;
  const auto take = [&](int64_t request_id, int64_t num_tokens) {
    int64_t& unread = unread_[request_id];
    const int64_t count = std::min(unread, num_tokens);
    unread -= count;
    read += uint64_t(count);
  };
  for (const StepItem& item : plan.items) take(item.request_id, item.num_tokens);
  // One that an error ended has nothing left to read.
  for (int64_t request_id : plan.finished) take(request_id, unread_[request_id]);
  if (read == 0) return;
  bool finished;
  {
    const std::lock_guard lock(mutex_);
    read_ += read;
    finished = finished_ = read_ == total_;
  }
  if (!finished) return;
  finished_changed_.notify_all();
  drawer_.join();  // so that its last line comes before the answer
}

void PromptProgress::DrawUntilFinished() {
  std::unique_lock lock(mutex_);
  const auto is_finished = [this] { return finished_; };
  if (finished_changed_.wait_for(lock, kSilence, is_finished)) return;
  while (!finished_changed_.wait_for(lock, kRedraw, is_finished)) bar_.Update(read_);
  bar_.Update(read_);
  if (read_ == total_) bar_.Finish();
}

}  // namespace winnow
