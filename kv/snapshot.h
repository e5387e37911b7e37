// The cache of one sequence as plain data: what it was made of on one rank or on all of them, independent of pages and
// of how heads are split. Taken from a SequenceCache (SequenceCache::TakeSnapshot), put back into an empty one of any
// heads (SequenceCache::Restore). Owned by whoever asked for it; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_stream.h"
#include "base/status.h"
#include "compute/dtype.h"

namespace winnow {

struct HeadSnapshot {
  std::vector<int32_t> positions;     // [length] of each slot, ascending
  std::vector<uint8_t> keys, values;  // [length][head_dim] elements of the snapshot's dtype, as cached (keys rotated)
  std::vector<int64_t> mass;          // [length] attention mass in steps of 2^-30, or empty: not observed
  std::vector<float> queries;         // [query_rows][query_group][head_dim] of the observation window, or empty
  int64_t length() const { return int64_t(positions.size()); }

  bool operator==(const HeadSnapshot&) const = default;
};

// What evictions took away is not stored: of every head it is next_position() - length.
struct SequenceSnapshot {
  DType dtype = DType::kBF16;  // kBF16 or kF32
  int64_t head_dim = 0;
  int64_t num_layers = 0;
  int64_t num_kv_heads = 0;               // held here, the first of which is:
  int64_t first_kv_head = 0;              // 0 in a whole snapshot
  std::vector<HeadSnapshot> heads;        // [num_layers][num_kv_heads]
  std::vector<int32_t> pinned_positions;  // ascending; no text tokens, held by every head
  int64_t tokens_seen = 0;                // text tokens ever appended
  int64_t evictions = 0;
  // The newest tokens whose queries are held, and query heads of a KV head; both 0 if there are none.
  int64_t query_rows = 0, query_group = 0;

  int64_t next_position() const { return tokens_seen + int64_t(pinned_positions.size()); }
  const HeadSnapshot& head(int64_t layer, int64_t local_head) const {
    return heads[size_t(layer * num_kv_heads + local_head)];
  }
  bool has_mass() const;
  int64_t entries() const;  // sum of lengths

  bool operator==(const SequenceSnapshot&) const = default;
};

// Whether a snapshot can be one of a cache: sizes that fit, positions that ascend and are below the next one, pinned
// slots in every head, finite keys, values and queries, mass in all heads or none and within range. BadFile naming
// layer, head, what was expected and what was found.
Status CheckSnapshot(const SequenceSnapshot& snapshot);

// One snapshot of all heads from those of the ranks, in rank order. Their shared parts are the same on all ranks.
SequenceSnapshot MergeSnapshots(std::span<const SequenceSnapshot> parts);

// Between ranks of one build.
void WriteSnapshot(const SequenceSnapshot& snapshot, ByteWriter& writer);
SequenceSnapshot ReadSnapshot(ByteReader& reader);

}  // namespace winnow
