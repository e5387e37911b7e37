#include "kv/sequence_cache.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace winnow {

SequenceCache::SequenceCache(PagePool& pool, int64_t num_layers, int64_t num_kv_heads, int64_t first_kv_head)
    : pool_(&pool),
      num_layers_(num_layers),
      num_kv_heads_(num_kv_heads),
      first_kv_head_(first_kv_head),
      heads_(size_t(num_layers * num_kv_heads)),
      queries_(num_layers, num_kv_heads),
      query_sums_(num_layers, num_kv_heads) {
  WINNOW_CHECK(num_layers > 0 && num_kv_heads > 0 && first_kv_head >= 0);
}

SequenceCache::~SequenceCache() {
  Release();
}

SequenceCache::SequenceCache(SequenceCache&& other) noexcept
    : pool_(other.pool_),
      num_layers_(other.num_layers_),
      num_kv_heads_(other.num_kv_heads_),
      first_kv_head_(other.first_kv_head_),
      heads_(std::exchange(other.heads_, {})),  // without heads the other holds no page and releases none
      pinned_positions_(std::exchange(other.pinned_positions_, {})),
      queries_(std::exchange(other.queries_, {0, 0})),
      query_sums_(std::exchange(other.query_sums_, {0, 0})),
      compaction_frequencies_(std::exchange(other.compaction_frequencies_, {})),
      tokens_seen_(std::exchange(other.tokens_seen_, 0)),
      evictions_(std::exchange(other.evictions_, 0)),
      entries_evicted_(std::exchange(other.entries_evicted_, 0)) {}

int64_t SequenceCache::max_length() const {
  int64_t longest = 0;
  for (const HeadCache& head : heads_) longest = std::max(longest, head.length());
  return longest;
}

int64_t SequenceCache::entries() const {
  int64_t sum = 0;
  for (const HeadCache& head : heads_) sum += head.length();
  return sum;
}

int64_t SequenceCache::num_pages() const {
  int64_t sum = 0;
  for (const HeadCache& head : heads_) sum += int64_t(head.pages.size());
  return sum;
}

int64_t SequenceCache::PagesNeeded(int64_t num_tokens) const {
  int64_t needed = 0;
  for (const HeadCache& head : heads_) {
    needed += std::max<int64_t>(0, PagesForSlots(head.length() + num_tokens) - int64_t(head.pages.size()));
  }
  return needed;
}

Status SequenceCache::Reserve(int64_t num_tokens) {
  WINNOW_CHECK(num_tokens >= 0);
  const int64_t needed = PagesNeeded(num_tokens);
  if (needed > pool_->num_free()) {
    return OutOfMemory("KV pages for " + std::to_string(num_tokens) + " more tokens: needed " + std::to_string(needed) +
                       ", free " + std::to_string(pool_->num_free()) + " of " + std::to_string(pool_->num_pages()));
  }
  for (HeadCache& head : heads_) {
    const int64_t wanted = PagesForSlots(head.length() + num_tokens);
    while (int64_t(head.pages.size()) < wanted) head.pages.push_back(pool_->Take());
  }
  return OkStatus();
}

void SequenceCache::Append(int64_t num_tokens) {
  AppendSlots(num_tokens);
  tokens_seen_ += num_tokens;
}

void SequenceCache::AppendSlots(int64_t num_slots) {
  const int64_t position = next_position();
  WINNOW_CHECK(num_slots >= 0 && position + num_slots <= std::numeric_limits<int32_t>::max());
  for (HeadCache& head : heads_) {
    WINNOW_CHECK(PagesForSlots(head.length() + num_slots) <= int64_t(head.pages.size()));
    for (int64_t i = 0; i < num_slots; ++i) head.positions.push_back(int32_t(position + i));
  }
}

void SequenceCache::AppendPinned(int64_t num_slots, std::span<const float> keys, std::span<const float> values) {
  WINNOW_CHECK(!has_compacted_positions());
  const int64_t position = next_position();
  AppendSlots(num_slots);
  for (int64_t i = 0; i < num_slots; ++i) pinned_positions_.push_back(int32_t(position + i));
  std::vector<int32_t> slots;
  for (const HeadCache& head : heads_) {
    const auto appended = PhysicalSlots(head, head.length() - num_slots);
    slots.insert(slots.end(), appended.begin(), appended.end());
  }
  pool_->WriteSlots(slots, keys, values);
}

void SequenceCache::Rollback(int64_t num_tokens) {
  WINNOW_CHECK(num_tokens >= 0 && num_tokens <= tokens_seen_);
  WINNOW_CHECK(num_tokens == 0 || query_sums_.num_queries() == 0);  // a sum cannot be taken back exactly
  tokens_seen_ -= num_tokens;
  queries_.Rollback(tokens_seen_);
  const int64_t position = next_position();
  // Pinned slots behind the new end would stay in the books and go from the heads.
  WINNOW_CHECK(num_tokens == 0 || pinned_positions_.empty() || pinned_positions_.back() < position);
  // Backwards, the reverse of Reserve: the pool's stack of free pages is then as it was before.
  for (size_t index = heads_.size(); index-- > 0;) {
    HeadCache& head = heads_[index];
    const int64_t left = head.length() - num_tokens;
    // Positions ascend, so that the first one being right means that all of them are there.
    WINNOW_CHECK(left >= 0 && (num_tokens == 0 || head.positions[size_t(left)] == position));
    head.positions.resize(size_t(left));
    GiveUnusedPages(index);
  }
}

void SequenceCache::Compact(const KeepPlan& plan) {
  WINNOW_CHECK(plan.kept.size() == heads_.size());
  std::vector<int32_t> moves;  // [n][2]
  for (size_t index = 0; index < heads_.size(); ++index) {
    HeadCache& head = heads_[index];
    const std::vector<int32_t>& kept = plan.kept[index];
    int32_t previous = -1;
    for (size_t slot = 0; slot < kept.size(); ++slot) {
      WINNOW_CHECK(kept[slot] > previous && kept[slot] < head.length());
      previous = kept[slot];
      if (previous == int32_t(slot)) continue;  // nothing before it went
      // The destination lies before its source and behind all sources done: no unread source is overwritten.
      moves.push_back(head.PhysicalSlot(previous));
      moves.push_back(head.PhysicalSlot(int64_t(slot)));
      head.positions[slot] = head.positions[size_t(previous)];
    }
    entries_evicted_ += head.length() - int64_t(kept.size());
    head.positions.resize(kept.size());
  }
  pool_->MoveSlots(moves);
  if (has_compacted_positions()) TurnMovedKeys(plan);
  for (size_t index = heads_.size(); index-- > 0;) GiveUnusedPages(index);
  ++evictions_;
}

std::vector<int32_t> SequenceCache::AllPages() const {
  std::vector<int32_t> pages;
  for (const HeadCache& head : heads_) pages.insert(pages.end(), head.pages.begin(), head.pages.end());
  return pages;
}

std::vector<int32_t> SequenceCache::PhysicalSlots(const HeadCache& head, int64_t first_slot) {
  std::vector<int32_t> slots;
  for (int64_t slot = first_slot; slot < head.length(); ++slot) slots.push_back(head.PhysicalSlot(slot));
  return slots;
}

std::vector<float> SequenceCache::ReadKeys(int64_t layer, int64_t local_head) const {
  const HeadCache& cache = head(layer, local_head);
  std::vector<float> keys(size_t(cache.length() * pool_->layout().head_dim));
  pool_->ReadSlots(PhysicalSlots(cache, 0), keys, {});
  return keys;
}

std::vector<float> SequenceCache::ReadValues(int64_t layer, int64_t local_head) const {
  const HeadCache& cache = head(layer, local_head);
  std::vector<float> values(size_t(cache.length() * pool_->layout().head_dim));
  pool_->ReadSlots(PhysicalSlots(cache, 0), {}, values);
  return values;
}

std::vector<int64_t> SequenceCache::QueryPositions() const {
  std::vector<int64_t> positions(size_t(queries_.num_rows()));
  // Backwards from the newest token, whose position is the last that is not pinned.
  auto pinned = pinned_positions_.rbegin();
  int64_t position = next_position() - 1;
  for (auto at = positions.rbegin(); at != positions.rend(); ++at, --position) {
    for (; pinned != pinned_positions_.rend() && *pinned == position; ++pinned) --position;
    *at = position;
  }
  return positions;
}

std::vector<std::vector<int64_t>> SequenceCache::ReadMass() const {
  const std::vector<int64_t> mass = pool_->ReadMass(AllPages());
  std::vector<std::vector<int64_t>> heads;
  auto at = mass.begin();
  for (const HeadCache& head : heads_) {
    heads.emplace_back(at, at + head.length());
    at += int64_t(head.pages.size()) * kPageSlots;
  }
  return heads;
}

void SequenceCache::ClearMass() {
  pool_->ClearMass(AllPages());
}

Status SequenceCache::CopySlots(const SequenceCache& from, std::span<const PositionRange> ranges) {
  WINNOW_CHECK(from.pool_ == pool_ && from.num_layers_ == num_layers_ && from.num_kv_heads_ == num_kv_heads_);
  WINNOW_CHECK(next_position() == 0 && num_pages() == 0);
  // Keys rotated by the index of their slot would be wrong in another one.
  WINNOW_CHECK(!has_compacted_positions() && !from.has_compacted_positions());
  std::vector<std::vector<int32_t>> chosen;  // slots of each head of the other
  int64_t needed = 0;
  for (const HeadCache& head : from.heads_) {
    std::vector<int32_t>& slots = chosen.emplace_back();
    for (const PositionRange& range : ranges) {
      const auto begin = std::lower_bound(head.positions.begin(), head.positions.end(), range.begin);
      const auto end = std::lower_bound(begin, head.positions.end(), range.end);
      for (auto at = begin; at < end; ++at) slots.push_back(int32_t(at - head.positions.begin()));
    }
    needed += PagesForSlots(int64_t(slots.size()));
  }
  if (needed > pool_->num_free()) {
    return OutOfMemory("KV pages for a copy of slots: needed " + std::to_string(needed) + ", free " +
                       std::to_string(pool_->num_free()) + " of " + std::to_string(pool_->num_pages()));
  }
  std::vector<int32_t> moves;  // [n][2]
  for (size_t index = 0; index < heads_.size(); ++index) {
    HeadCache& head = heads_[index];
    for (int64_t i = 0; i < PagesForSlots(int64_t(chosen[index].size())); ++i) head.pages.push_back(pool_->Take());
    for (int32_t slot : chosen[index]) {
      moves.push_back(from.heads_[index].PhysicalSlot(slot));
      moves.push_back(head.PhysicalSlot(head.length()));
      head.positions.push_back(from.heads_[index].positions[size_t(slot)]);
    }
  }
  pool_->MoveSlots(moves);
  tokens_seen_ = from.next_position();
  return OkStatus();
}

void SequenceCache::Release() {
  for (size_t index = heads_.size(); index-- > 0;) {
    heads_[index].positions.clear();
    GiveUnusedPages(index);
  }
  pinned_positions_.clear();
  queries_.Clear();
  query_sums_.Clear();
  tokens_seen_ = evictions_ = entries_evicted_ = 0;
}

uint64_t SequenceCache::KeptHash() const {
  uint64_t sum = 0;
  for (int64_t layer = 0; layer < num_layers_; ++layer) {
    for (int64_t local_head = 0; local_head < num_kv_heads_; ++local_head) {
      const uint64_t global_head = uint64_t(first_kv_head_ + local_head);
      for (int32_t position : head(layer, local_head).positions) {
        sum += HashWords({uint64_t(layer), global_head, uint64_t(position)});
      }
    }
  }
  return sum;
}

void SequenceCache::GiveUnusedPages(size_t index) {
  HeadCache& head = heads_[index];
  const size_t used = size_t(PagesForSlots(head.length()));
  while (head.pages.size() > used) {
    pool_->Give(head.pages.back());
    head.pages.pop_back();
  }
}

}  // namespace winnow
