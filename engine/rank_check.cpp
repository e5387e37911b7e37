#include "engine/rank_check.h"

#include <cstring>
#include <span>
#include <vector>

namespace winnow {

Status CompareRanks(Communicator& communicator, int64_t step, const RankState& mine) {
  static_assert(sizeof(RankState) == 40);
  const auto bytes = communicator.AllGather(std::as_bytes(std::span(&mine, 1)));
  std::vector<RankState> states(size_t(communicator.size()));
  std::memcpy(states.data(), bytes.data(), bytes.size());
  for (size_t rank = 1; rank < states.size(); ++rank) {
    size_t other = 0;
    const char* what = states[rank].tokens != states[0].tokens             ? "sampled tokens"
                       : states[rank].lengths != states[0].lengths         ? "cache lengths"
                       : states[rank].shared_kept != states[0].shared_kept ? "kept sets"
                                                                           : nullptr;
    if (what == nullptr) {
      while (states[other].first_kv_head != states[rank].first_kv_head) ++other;
      if (states[other].own_kept != states[rank].own_kept) what = "kept sets of the same KV heads";
    }
    if (what != nullptr) {
      return InternalError("ranks disagree at step " + std::to_string(step) + ": the " + what + " of rank " +
                           std::to_string(rank) + " differ from those of rank " + std::to_string(other));
    }
  }
  return OkStatus();
}

}  // namespace winnow
