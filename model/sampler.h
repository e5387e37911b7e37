// Chooses tokens from logits that are sharded over ranks by vocabulary rows. Every rank gets the same token: all that
// crosses ranks is a maximum, an integer sum or a merge by (value, id), so any split of the vocabulary gives the same
// bits. Collective; engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "dist/communicator.h"
#include "model/sampling_params.h"

namespace winnow {

// One row to sample. Random numbers are keyed by (seed, choice_index, position, token id) and nothing else.
struct SampleRow {
  std::span<const float> logits;  // this rank's vocabulary rows
  SamplingParams params;
  int64_t choice_index = 0;
  int64_t position = 0;  // absolute position that the new token will have
};

struct SampledToken {
  int32_t token = -1;
  float logprob = 0;  // of the raw distribution (before temperature and filters)
  Status status;      // kNumerical if the row has a logit that is not finite; the other rows go on
};

// `first_id` is the token id of this rank's first vocabulary row. The rows (but for logits) are the same on all ranks.
std::vector<SampledToken> Sample(Communicator& communicator, int32_t first_id, std::span<const SampleRow> rows);

}  // namespace winnow
