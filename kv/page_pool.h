// Pages of one pool, shared by all sequences on this rank. Pages belong to one KV head of one layer of one sequence at
// a time, so that per-head eviction frees whole pages. Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "compute/backend.h"
#include "compute/kv_layout.h"

namespace winnow {

class PagePool {
 public:
  // Reserves the memory of `num_pages` pages on the backend, which must outlive the pool. OutOfMemory if it cannot be
  // had, InvalidArgument if there is no page or more than physical slots in int32 can name.
  // with_mass: also 64-bit attention statistics, one a slot (with scratch 260 bytes a page: 6 % at head size 64 in
  // bf16).
  static Result<std::unique_ptr<PagePool>> Make(Backend& backend, const KvLayout& layout, int64_t num_pages,
                                                bool with_mass = false);

  // A free page: the one given back last, at first in ascending order. None left is a programmer mistake: reserve by
  // num_free() first (SequenceCache::Reserve does).
  int32_t Take();
  // Gives pages back; they may serve another sequence at once. With poison on, their bytes become 0xff (NaN) first.
  void Give(int32_t page);

  // Copies keys and values from slot to slot, in order. moves [n][2]: physical source slot, physical destination slot.
  // Cannot fail: the device memory of the list is taken when the pool is made.
  void MoveSlots(std::span<const int32_t> moves);

  // Keys and values of slots, [n][head_dim] each; an empty span is not read. Few large calls: each is an upload, an op
  // and a copy per 4096 slots.
  void ReadSlots(std::span<const int32_t> physical_slots, std::span<float> keys, std::span<float> values);
  // Writes them as they are. mass [n]: of the slots; empty: it becomes 0 (without a with_mass pool there is none).
  void WriteSlots(std::span<const int32_t> physical_slots, std::span<const float> keys, std::span<const float> values,
                  std::span<const int64_t> mass = {});

  // The mass of every slot of these pages: [pages][16]. with_mass pools only. One upload, one op, one copy.
  std::vector<int64_t> ReadMass(std::span<const int32_t> pages);
  // Sets it to 0.
  void ClearMass(std::span<const int32_t> pages);

  int64_t num_pages() const { return num_pages_; }
  int64_t num_free() const { return int64_t(free_.size()); }
  int64_t num_used() const { return num_pages_ - num_free(); }
  int64_t peak_used() const { return peak_used_; }
  int64_t pages_freed() const { return pages_freed_; }  // ever given back by Give
  const KvLayout& layout() const { return layout_; }
  // The whole pool, as the ops take it: [num_pages * page_bytes / 4] f32.
  Tensor pages() const;
  // [num_pages, 16] i64 indexed by physical slot, or empty without mass.
  Tensor mass() const;
  Backend& backend() const { return *backend_; }

  void set_poison_on_release(bool poison) { poison_ = poison; }

 private:
  struct Memory {
    Buffer pages;
    Buffer moves;                   // [max_moves][2] i32, of MoveSlots
    Buffer mass;                    // [num_pages][16] i64
    Buffer page_list;               // [num_pages] i32, of ReadMass and ClearMass
    Buffer mass_copy;               // [num_pages][16] i64, of ReadMass
    Buffer slot_list;               // [max_slots] i32, of ReadSlots and WriteSlots, as are:
    Buffer slot_keys, slot_values;  // [max_slots][head_dim] f32
    Buffer slot_mass;               // [max_slots] i64
  };
  PagePool(Backend& backend, const KvLayout& layout, int64_t num_pages, Memory memory);
  Tensor UploadPageList(std::span<const int32_t> pages);
  // Calls f(first, count) for as many slots at a time as the scratch holds.
  template <class F>
  void ForSlotParts(size_t num_slots, F&& f) const;

  Backend* backend_;
  KvLayout layout_;
  int64_t num_pages_;
  Memory memory_;
  std::vector<int32_t> free_;  // a stack
  std::vector<bool> taken_;    // [num_pages], so that no page is given back twice and then serves two heads
  int64_t peak_used_ = 0;
  int64_t pages_freed_ = 0;
  bool poison_ = false;
};

}  // namespace winnow
