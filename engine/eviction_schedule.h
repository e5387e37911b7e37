// When a request's evictions and pinned slots fall due. A function of the request and of how many of its tokens are in
// the cache, so that the leader, the workers, every chunking and every replay agree. One per sequence and rank.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "engine/request.h"

namespace winnow {

class EvictionSchedule {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // At the first token, or where the request's resume point stands: pinned slots that were due by then are in it.
  explicit EvictionSchedule(const Request& request);

  int64_t tokens() const { return tokens_; }  // of the text, in the cache
  int64_t slots() const { return slots_; }    // held by each head, pinned ones included

  // How many more tokens may follow in one step: it ends where pinned slots are appended or an eviction is due.
  int64_t TokensUntilCut() const;

  // What follows `num_tokens` more tokens, at most TokensUntilCut(): first pinned slots, then an eviction.
  struct Due {
    int pinned_block = -1;  // index into the request's, or none
    bool evict = false;
  };
  Due Advance(int64_t num_tokens);

  // Tokens of the text after which the next eviction comes, or kNever.
  int64_t NextEviction() const;

  // What heads hold from here on, as a mean over heads, if the text ends after `num_tokens` tokens in all.
  struct Peaks {
    int64_t before_eviction = 0;  // most slots until the next eviction, or the end
    bool evicts = false;
    int64_t since_eviction = 0;  // most slots that follow an eviction before the next, or the end
  };
  Peaks PeaksUntil(int64_t num_tokens) const;
  // The most slots that a head holds from here on, where all budgets are equal.
  int64_t MaxSlots(int64_t num_tokens) const;
  // The text and all pinned slots: what a head holds that loses nothing, as heads with budgets of their own may do.
  int64_t WholeText(int64_t num_tokens) const;
  // Pinned slots that a head may hold at an eviction, ascending: those of now, and those after each block to come.
  std::vector<int64_t> PinnedSlotCounts(int64_t num_tokens) const;

 private:
  struct Pinned {
    int64_t after_tokens, num_slots;
  };

  EvictionSettings settings_;
  int64_t prompt_tokens_;
  std::vector<Pinned> pinned_;
  size_t next_pinned_ = 0;
  int64_t tokens_ = 0, slots_ = 0;
  int64_t loaded_pinned_ = 0;  // slots of the resume point
};

}  // namespace winnow
