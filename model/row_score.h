// How well a row of logits, sharded over ranks by vocabulary rows, predicts a known token, and how far it is from
// another row. All that crosses ranks is a maximum, an integer sum or a merge by (value, id), so that any split of the
// vocabulary gives the same bits. Collective; engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "dist/communicator.h"

namespace winnow {

struct ScoreRow {
  static constexpr int64_t kNoReference = -1;

  std::span<const float> logits;  // this rank's vocabulary rows
  int32_t target = 0;             // the token that followed
  int64_t position = 0;           // of that token, for messages
  // Index into the rows of the call: the row that this one is compared with (the same text with a full cache).
  int64_t reference = kNoReference;
};

// In nats, of the raw distribution softmax(logits).
struct RowScore {
  double loss = 0;     // -log p(target)
  double entropy = 0;  // -sum p log p
  int32_t top = -1;    // the most probable token, ties to the lower id
  double kl = 0;       // sum p_ref (log p_ref - log p), 0 without a reference
  Status status;       // kNumerical if the row or its reference has a logit that is not finite; the others go on
};

// `first_id` is the token id of this rank's first vocabulary row. The rows (but for logits) are the same on all ranks.
// A term of KL beyond 4096 nats counts as 4096.
// Two collectives: an all-gather of 16 bytes a row, an all-reduce of 32 bytes a row.
std::vector<RowScore> ScoreRows(Communicator& communicator, int32_t first_id, std::span<const ScoreRow> rows);

}  // namespace winnow
