#include "engine/eviction_schedule.h"

#include <algorithm>

#include "base/check.h"
#include "engine/resume_point.h"

namespace winnow {

EvictionSchedule::EvictionSchedule(const Request& request)
    : settings_(request.eviction), prompt_tokens_(request.prompt_tokens()) {
  for (const PinnedBlock& block : request.pinned) {
    WINNOW_CHECK(block.num_slots > 0 && block.after_tokens > (pinned_.empty() ? 0 : pinned_.back().after_tokens));
    pinned_.push_back({block.after_tokens, block.num_slots});
  }
  if (request.resume == nullptr) return;
  tokens_ = request.resume->cache.tokens_seen;
  slots_ = SlotsPerHead(*request.resume, settings_);
  loaded_pinned_ = int64_t(request.resume->cache.pinned_positions.size());
  while (next_pinned_ < pinned_.size() && pinned_[next_pinned_].after_tokens <= tokens_) ++next_pinned_;
}

int64_t EvictionSchedule::NextEviction() const {
  if (!settings_.evicts()) return kNever;
  int64_t tokens = tokens_, slots = slots_;
  if (settings_.timing == EvictionTiming::kAfterPrefill) {
    if (tokens >= prompt_tokens_) return kNever;
    slots += prompt_tokens_ - tokens;
    for (size_t i = next_pinned_; i < pinned_.size() && pinned_[i].after_tokens <= prompt_tokens_; ++i) {
      slots += pinned_[i].num_slots;
    }
    return slots > settings_.budget ? prompt_tokens_ : kNever;
  }
  for (size_t i = next_pinned_; i < pinned_.size(); ++i) {
    const int64_t before = pinned_[i].after_tokens - tokens;
    if (slots + before >= settings_.Trigger()) break;
    slots += before + pinned_[i].num_slots;
    tokens += before;
    if (slots >= settings_.Trigger()) return tokens;
  }
  return tokens + settings_.Trigger() - slots;
}

int64_t EvictionSchedule::TokensUntilCut() const {
  const int64_t pinned = next_pinned_ < pinned_.size() ? pinned_[next_pinned_].after_tokens : kNever;
  const int64_t cut = std::min(NextEviction(), pinned);
  return cut == kNever ? kNever : cut - tokens_;
}

EvictionSchedule::Due EvictionSchedule::Advance(int64_t num_tokens) {
  WINNOW_CHECK(num_tokens > 0 && num_tokens <= TokensUntilCut());
  Due due;
  due.evict = NextEviction() == tokens_ + num_tokens;
  tokens_ += num_tokens;
  slots_ += num_tokens;
  if (next_pinned_ < pinned_.size() && pinned_[next_pinned_].after_tokens == tokens_) {
    due.pinned_block = int(next_pinned_);
    slots_ += pinned_[next_pinned_++].num_slots;
  }
  if (due.evict) slots_ = settings_.budget;
  return due;
}

EvictionSchedule::Peaks EvictionSchedule::PeaksUntil(int64_t num_tokens) const {
  // Step by step from cut to cut, with one look at each.
  EvictionSchedule schedule = *this;
  Peaks peaks{.before_eviction = slots_};
  while (schedule.tokens_ < num_tokens) {
    const int64_t next = std::min(schedule.TokensUntilCut(), num_tokens - schedule.tokens_);
    int64_t slots = schedule.slots_ + next;
    const size_t pinned_before = schedule.next_pinned_;
    const Due due = schedule.Advance(next);
    for (size_t i = pinned_before; i < schedule.next_pinned_; ++i) slots += pinned_[i].num_slots;
    if (peaks.evicts) {
      peaks.since_eviction = std::max(peaks.since_eviction, slots - settings_.budget);
    } else {
      peaks.before_eviction = std::max(peaks.before_eviction, slots);
    }
    peaks.evicts |= due.evict;
    // From the first regular eviction on nothing new happens until the next pinned slots.
    if (due.evict && schedule.next_pinned_ == pinned_.size() && settings_.timing == EvictionTiming::kChunked) {
      const int64_t left = std::min(num_tokens - schedule.tokens_, settings_.interval);
      peaks.since_eviction = std::max(peaks.since_eviction, left);
      break;
    }
  }
  return peaks;
}

int64_t EvictionSchedule::MaxSlots(int64_t num_tokens) const {
  const Peaks peaks = PeaksUntil(num_tokens);
  return peaks.evicts ? std::max(peaks.before_eviction, settings_.budget + peaks.since_eviction)
                      : peaks.before_eviction;
}

int64_t EvictionSchedule::WholeText(int64_t num_tokens) const {
  return num_tokens + PinnedSlotCounts(num_tokens).back();
}

std::vector<int64_t> EvictionSchedule::PinnedSlotCounts(int64_t num_tokens) const {
  std::vector<int64_t> counts = {loaded_pinned_};
  for (size_t i = next_pinned_; i < pinned_.size(); ++i) {
    if (pinned_[i].after_tokens <= num_tokens) counts.push_back(counts.back() + pinned_[i].num_slots);
  }
  return counts;
}

}  // namespace winnow
