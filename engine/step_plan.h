// One step of the group as plain data: the leader makes it, everyone executes it. Prefill, a chunk of a prefill and
// decode are the same thing: the next tokens of a sequence. It carries no page ids (pages are private to a rank) and no
// sampled tokens (every rank samples the same ones).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"

namespace winnow {

struct StepItem {
  int64_t request_id;
  int64_t num_tokens;  // the sequence's next tokens, in order
  bool sample;         // these are the last known tokens: sample the next one
  // Every token is scored as a prediction of the one after it (teacher forcing): the item never holds the last token of
  // the text and samples nothing. reference_item: the item of this step, with as many tokens, that its predictions are
  // compared with (an earlier one); -1: none.
  bool score = false;
  int32_t reference_item = -1;
  // What follows the tokens (engine/eviction_schedule.h): the request's pinned block of this index, then an eviction.
  int32_t pinned_block = -1;  // none
  bool evict = false;
};

struct StepPlan {
  int64_t step = 0;
  std::vector<int64_t> finished;  // sequences to report on and release, before anything else
  std::vector<Request> admitted;  // new sequences
  std::vector<StepItem> items;    // rows of the step, in this order
  bool stop = false;              // the last plan of the run
};

// Bytes for ranks of the same build, and back.
std::vector<std::byte> Serialise(const StepPlan& plan);
StepPlan ParseStepPlan(std::span<const std::byte> bytes);

}  // namespace winnow
