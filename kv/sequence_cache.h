// The KV cache of one sequence on this rank: per layer and local KV head a HeadCache of pages, length and positions.
// Reserve first (may fail), then Append (cannot). Slots keep their original absolute position; survivors of an eviction
// are moved together (ascending) and never re-rotated, but for caches with compacted positions. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/keep_plan.h"
#include "kv/page_pool.h"
#include "kv/query_sums.h"
#include "kv/query_window.h"

namespace winnow {

struct SequenceSnapshot;

struct HeadCache {
  std::vector<int32_t> pages;      // page of slots 16 i .. 16 i + 15
  std::vector<int32_t> positions;  // [length] absolute position of each slot, ascending
  int64_t length() const { return int64_t(positions.size()); }
  int32_t PhysicalSlot(int64_t slot) const {
    return pages[size_t(slot / kPageSlots)] * int32_t(kPageSlots) + int32_t(slot % kPageSlots);
  }
};

struct PositionRange {
  int64_t begin, end;  // end is not part of it
};

class SequenceCache {
 public:
  // The pool must outlive the cache. num_kv_heads counts this rank's heads, the first of which is first_kv_head
  // globally.
  SequenceCache(PagePool& pool, int64_t num_layers, int64_t num_kv_heads, int64_t first_kv_head);
  ~SequenceCache();  // releases
  SequenceCache(SequenceCache&&) noexcept;
  SequenceCache& operator=(SequenceCache&&) = delete;

  int64_t num_layers() const { return num_layers_; }
  int64_t num_kv_heads() const { return num_kv_heads_; }
  int64_t first_kv_head() const { return first_kv_head_; }
  int64_t head_dim() const { return pool_->layout().head_dim; }
  const HeadCache& head(int64_t layer, int64_t local_head) const {
    return heads_[size_t(layer * num_kv_heads_ + local_head)];
  }

  // From here on keys are rotated by the index of their slot instead of their position (StreamingLLM's way, arXiv
  // 2309.17453): survivors of an eviction are turned on to where they move. Their positions, as they are reported, stay
  // those of the text. Frequencies [head_dim / 2]: radians per position of the pairs (i, i + head_dim / 2). Before the
  // first slot; all heads must hold the same slots, and none of them pinned.
  void CompactPositions(std::span<const double> frequencies);
  bool has_compacted_positions() const { return !compaction_frequencies_.empty(); }

  // Text tokens ever appended.
  int64_t tokens_seen() const { return tokens_seen_; }
  // Position of the next slot in the text. Text tokens and pinned slots own one position each.
  int64_t next_position() const { return tokens_seen_ + int64_t(pinned_positions_.size()); }
  // What the key of the next slot is rotated by: its position, or its index where positions are compacted.
  int64_t next_rotary_position() const { return has_compacted_positions() ? heads_[0].length() : next_position(); }
  // Ascending positions of slots that belong to no text token; they are never evicted.
  std::span<const int32_t> pinned_positions() const { return pinned_positions_; }
  int64_t pinned_entries() const { return int64_t(pinned_positions_.size() * heads_.size()); }
  int64_t max_length() const;
  int64_t entries() const;    // sum of lengths over layers and local heads, pinned slots included
  int64_t num_pages() const;  // pages held
  int64_t evictions() const { return evictions_; }
  int64_t entries_evicted() const { return entries_evicted_; }

  // Pages that Reserve(num_tokens) would take from the pool.
  int64_t PagesNeeded(int64_t num_tokens) const;
  // Takes the pages that num_tokens more tokens need, on every head, or takes none: OutOfMemory naming needed and free.
  Status Reserve(int64_t num_tokens);
  // Adds num_tokens slots at positions next_position().. on every head (pages must be reserved); the ops then fill
  // them.
  void Append(int64_t num_tokens);
  // Adds slots that belong to no text token (learned or restored keys and values) and fills them: keys, values
  // [layer][local head][num_slots][head_dim], as they are stored (keys rotated). Pages must be reserved.
  void AppendPinned(int64_t num_slots, std::span<const float> keys, std::span<const float> values);
  // Takes back the last num_tokens appended text tokens, their queries and the pages they alone held (probe passes,
  // failed steps), also pages reserved and not used. All heads must still hold those tokens, and no pinned slot may
  // stand among or behind them: neither an eviction nor a pinned block can be taken back.
  void Rollback(int64_t num_tokens);

  // Keeps exactly the planned slots, moves them together on the backend and returns emptied pages to the pool. Counts
  // as one eviction even if these heads keep everything, so that evictions() is the same on every rank.
  void Compact(const KeepPlan& plan);

  // Keys of one head, [length][head_dim], rotated as they are stored.
  std::vector<float> ReadKeys(int64_t layer, int64_t local_head) const;
  // Values likewise.
  std::vector<float> ReadValues(int64_t layer, int64_t local_head) const;

  // The mass of every slot, [layer][local head][length]; the pool must have mass.
  std::vector<std::vector<int64_t>> ReadMass() const;
  // Sets it to 0 (the next observation window begins).
  void ClearMass();

  // Queries of the observation window, kept for policies that ask for them. They are those of the newest num_rows
  // tokens that were appended: [layer][num_rows][local KV head][query heads of the KV head][head_dim], rotated, scaled.
  const QueryWindow& queries() const { return queries_; }
  void AppendQueries(int64_t num_rows, std::span<const float> queries) {
    queries_.Append(tokens_seen_, num_rows, queries);
  }
  // Forgets all but those of the newest num_rows tokens: the next observation window begins with these.
  void KeepQueries(int64_t num_rows) { queries_.KeepNewest(num_rows); }
  // Positions of the tokens whose queries are held, oldest first: [queries().num_rows()].
  std::vector<int64_t> QueryPositions() const;

  // Sums over the queries of all tokens read so far, for policies that ask for them. Neither saved nor taken back: they
  // are gone before an answer begins.
  const QuerySums& query_sums() const { return query_sums_; }
  void AddQueries(std::span<const int64_t> positions, std::span<const double> frequencies,
                  std::span<const float> queries) {
    query_sums_.Add(positions, frequencies, queries);
  }
  void ClearQuerySums() { query_sums_.Clear(); }

  // Makes this empty cache, of the same pool and heads, a copy of the other's slots at the positions of these ascending
  // ranges; what is appended next follows the other's slots. No text token and no pinned slot is taken over, only their
  // keys and values. OutOfMemory if the pages do not suffice: the cache is then still empty.
  Status CopySlots(const SequenceCache& from, std::span<const PositionRange> ranges);

  // Everything that makes this cache (kv/snapshot.h), with or without the mass; with it, the pool must have mass.
  SequenceSnapshot TakeSnapshot(bool with_mass) const;
  // Makes this empty cache what the snapshot says of its heads, all of which the snapshot holds. Layers, head size and
  // dtype must be the pool's. OutOfMemory if the pages do not suffice: the cache is then still empty.
  Status Restore(const SequenceSnapshot& snapshot);

  // Gives every page back. The cache is then as new: empty, all counters 0 (a replay starts from there).
  void Release();

  // An order-free hash of the kept set: a wrapping sum over this rank's (layer, global head, position), so that the
  // sums of all ranks add to the same value for any rank count.
  uint64_t KeptHash() const;

 private:
  void AppendSlots(int64_t num_slots);
  static int64_t PagesForSlots(int64_t slots) { return (slots + kPageSlots - 1) / kPageSlots; }
  // Turns the keys of the slots that `plan` moved to where they are now.
  void TurnMovedKeys(const KeepPlan& plan);
  // Returns the pages beyond the length of the head at `index` of heads_.
  void GiveUnusedPages(size_t index);

  std::vector<int32_t> AllPages() const;                                                 // of every head, in order
  static std::vector<int32_t> PhysicalSlots(const HeadCache& head, int64_t first_slot);  // from first_slot on

  PagePool* pool_;
  int64_t num_layers_, num_kv_heads_, first_kv_head_;
  std::vector<HeadCache> heads_;  // [layer][local head]
  std::vector<int32_t> pinned_positions_;
  QueryWindow queries_;
  QuerySums query_sums_;
  std::vector<double> compaction_frequencies_;  // empty: positions are absolute
  int64_t tokens_seen_ = 0;
  int64_t evictions_ = 0;
  int64_t entries_evicted_ = 0;
};

}  // namespace winnow
