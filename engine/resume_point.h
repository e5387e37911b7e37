// What a sequence needs besides its request to go on from the middle without reading its text again: the cache of all
// heads, and what has been counted so far. The request that goes on from it has all tokens of the text in its prompt.
// Immutable once made; any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "base/byte_stream.h"
#include "dist/communicator.h"
#include "engine/request.h"
#include "kv/snapshot.h"

namespace winnow {

struct ResumePoint {
  SequenceSnapshot cache;   // of the whole model; of a rank's heads on the way to being gathered
  uint64_t kept_hash = 0;   // of the kept set after every eviction so far
  int64_t pages_freed = 0;  // by evictions

  bool operator==(const ResumePoint&) const = default;
};

// Slots that each head would hold if all budgets were equal: where the schedule of evictions stands.
int64_t SlotsPerHead(const ResumePoint& point, const EvictionSettings& eviction);

void WriteResumePoint(const ResumePoint& point, ByteWriter& writer);
ResumePoint ReadResumePoint(ByteReader& reader);

// All ranks' heads together, on rank 0; null elsewhere. Of heads that several ranks hold one rank's part counts, which
// must have all that their query heads have seen; the others say so by is_counted. Collective: two broadcasts a rank.
// Engine thread.
std::shared_ptr<const ResumePoint> GatherResumePoint(Communicator& communicator, const ResumePoint& mine,
                                                     bool is_counted = true);

}  // namespace winnow
