#include "kv/page_pool.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"

namespace winnow {
namespace {

// 512 KiB of moves at a time: an eviction of 30 layers x 3 heads x 700 kept slots is one call.
constexpr int64_t kMaxMovesPerCall = 65536;
// Scratch of 2 MiB at head size 64.
constexpr int64_t kMaxSlotsPerCall = 4096;

}  // namespace

Result<std::unique_ptr<PagePool>> PagePool::Make(Backend& backend, const KvLayout& layout, int64_t num_pages,
                                                 bool with_mass) {
  WINNOW_CHECK(layout.head_dim > 0 && layout.head_dim % 16 == 0);
  constexpr int64_t kMaxPages = std::numeric_limits<int32_t>::max() / kPageSlots;
  if (num_pages < 1 || num_pages > kMaxPages) {
    return InvalidArgument("KV pool: expected 1 to " + std::to_string(kMaxPages) + " pages, found " +
                           std::to_string(num_pages));
  }
  const int64_t bytes = num_pages * layout.page_bytes(), mass_bytes = num_pages * kPageSlots * int64_t(sizeof(int64_t));
  const int64_t max_moves = std::min(num_pages * kPageSlots, kMaxMovesPerCall);
  Memory memory;
  const auto take = [&](int64_t size, Buffer* buffer) {
    Result<Buffer> made = backend.Allocate(size);
    if (made.ok()) *buffer = std::move(made).value();
    return made.ok();
  };
  bool ok = take(bytes, &memory.pages) && take(max_moves * 2 * int64_t(sizeof(int32_t)), &memory.moves);
  const int64_t max_slots = std::min(num_pages * kPageSlots, kMaxSlotsPerCall);
  const int64_t row_bytes = layout.head_dim * int64_t(sizeof(float));
  ok = ok && take(max_slots * int64_t(sizeof(int32_t)), &memory.slot_list) &&
       take(max_slots * row_bytes, &memory.slot_keys) && take(max_slots * row_bytes, &memory.slot_values) &&
       take(max_slots * int64_t(sizeof(int64_t)), &memory.slot_mass);
  if (with_mass) {
    ok = ok && take(mass_bytes, &memory.mass) && take(mass_bytes, &memory.mass_copy) &&
         take(num_pages * int64_t(sizeof(int32_t)), &memory.page_list);
  }
  if (!ok) {
    return OutOfMemory("KV pool: " + std::to_string(num_pages) + " pages of " + std::to_string(layout.page_bytes()) +
                       " bytes (" + std::to_string(bytes) + " bytes in all) could not be allocated on " +
                       backend.name());
  }
  return std::unique_ptr<PagePool>(new PagePool(backend, layout, num_pages, std::move(memory)));
}

PagePool::PagePool(Backend& backend, const KvLayout& layout, int64_t num_pages, Memory memory)
    : backend_(&backend),
      layout_(layout),
      num_pages_(num_pages),
      memory_(std::move(memory)),
      taken_(size_t(num_pages), false) {
  free_.reserve(size_t(num_pages));
  for (int64_t page = num_pages - 1; page >= 0; --page) free_.push_back(int32_t(page));
}

int32_t PagePool::Take() {
  WINNOW_CHECK(!free_.empty());
  const int32_t page = free_.back();
  free_.pop_back();
  taken_[size_t(page)] = true;
  peak_used_ = std::max(peak_used_, num_used());
  return page;
}

void PagePool::Give(int32_t page) {
  WINNOW_CHECK(page >= 0 && page < num_pages_ && taken_[size_t(page)]);
  if (poison_) {
    const int64_t page_floats = layout_.page_bytes() / int64_t(sizeof(float));
    backend_->Fill(pages().Rows(page * page_floats, page_floats), 0xff);
  }
  taken_[size_t(page)] = false;
  free_.push_back(page);
  ++pages_freed_;
}

void PagePool::MoveSlots(std::span<const int32_t> moves) {
  const size_t max_numbers = size_t(memory_.moves.bytes()) / sizeof(int32_t);
  while (!moves.empty()) {
    const std::span<const int32_t> part = moves.first(std::min(moves.size(), max_numbers));
    const Tensor list = memory_.moves.View(DType::kI32, {int64_t(part.size() / 2), 2});
    backend_->CopyToDevice(list, std::as_bytes(part));
    backend_->Compact({.moves = list, .pages = pages(), .kv = layout_, .mass = mass()});
    moves = moves.subspan(part.size());
  }
}

template <class F>
void PagePool::ForSlotParts(size_t num_slots, F&& f) const {
  const size_t max_slots = size_t(memory_.slot_list.bytes()) / sizeof(int32_t);
  for (size_t first = 0; first < num_slots; first += max_slots) f(first, std::min(max_slots, num_slots - first));
}

void PagePool::ReadSlots(std::span<const int32_t> physical_slots, std::span<float> keys, std::span<float> values) {
  const size_t head_dim = size_t(layout_.head_dim);
  WINNOW_CHECK(keys.empty() || keys.size() == physical_slots.size() * head_dim);
  WINNOW_CHECK(values.empty() || values.size() == physical_slots.size() * head_dim);
  ForSlotParts(physical_slots.size(), [&](size_t first, size_t count) {
    const Tensor list = memory_.slot_list.View(DType::kI32, {int64_t(count)});
    backend_->CopyToDevice(list, std::as_bytes(physical_slots.subspan(first, count)));
    const auto rows = [&](const Buffer& buffer, std::span<float> wanted) {
      return wanted.empty() ? Tensor() : buffer.View(DType::kF32, {int64_t(count), layout_.head_dim});
    };
    const Tensor key_rows = rows(memory_.slot_keys, keys), value_rows = rows(memory_.slot_values, values);
    backend_->ReadSlots(
        {.physical_slots = list, .keys = key_rows, .values = value_rows, .pages = pages(), .kv = layout_});
    const auto copy = [&](const Tensor& from, std::span<float> to) {
      if (to.empty()) return;
      backend_->CopyToHost(std::as_writable_bytes(to.subspan(first * head_dim, count * head_dim)), from);
    };
    copy(key_rows, keys);
    copy(value_rows, values);
  });
}

void PagePool::WriteSlots(std::span<const int32_t> physical_slots, std::span<const float> keys,
                          std::span<const float> values, std::span<const int64_t> mass) {
  const size_t head_dim = size_t(layout_.head_dim);
  WINNOW_CHECK(keys.size() == physical_slots.size() * head_dim && values.size() == keys.size());
  WINNOW_CHECK(mass.empty() || (mass.size() == physical_slots.size() && memory_.mass.bytes() > 0));
  ForSlotParts(physical_slots.size(), [&](size_t first, size_t count) {
    const Tensor list = memory_.slot_list.View(DType::kI32, {int64_t(count)});
    const Tensor key_rows = memory_.slot_keys.View(DType::kF32, {int64_t(count), layout_.head_dim});
    const Tensor value_rows = memory_.slot_values.View(DType::kF32, {int64_t(count), layout_.head_dim});
    backend_->CopyToDevice(list, std::as_bytes(physical_slots.subspan(first, count)));
    backend_->CopyToDevice(key_rows, std::as_bytes(keys.subspan(first * head_dim, count * head_dim)));
    backend_->CopyToDevice(value_rows, std::as_bytes(values.subspan(first * head_dim, count * head_dim)));
    Tensor slot_mass;
    if (!mass.empty()) {
      slot_mass = memory_.slot_mass.View(DType::kI64, {int64_t(count)});
      backend_->CopyToDevice(slot_mass, std::as_bytes(mass.subspan(first, count)));
    }
    backend_->WriteSlots({.physical_slots = list,
                          .keys = key_rows,
                          .values = value_rows,
                          .pages = pages(),
                          .kv = layout_,
                          .mass = this->mass(),
                          .slot_mass = slot_mass});
  });
}

Tensor PagePool::pages() const {
  return memory_.pages.View(DType::kF32, {num_pages_ * layout_.page_bytes() / int64_t(sizeof(float))});
}

Tensor PagePool::mass() const {
  if (memory_.mass.bytes() == 0) return {};
  return memory_.mass.View(DType::kI64, {num_pages_, kPageSlots});
}

Tensor PagePool::UploadPageList(std::span<const int32_t> pages) {
  WINNOW_CHECK(memory_.mass.bytes() > 0 && int64_t(pages.size()) <= num_pages_);
  const Tensor list = memory_.page_list.View(DType::kI32, {int64_t(pages.size())});
  backend_->CopyToDevice(list, std::as_bytes(pages));
  return list;
}

std::vector<int64_t> PagePool::ReadMass(std::span<const int32_t> pages) {
  const Tensor list = UploadPageList(pages);
  // GatherRows moves 32-bit elements whatever they mean: a page's 16 counters are 32 of them.
  const Tensor all = memory_.mass.View(DType::kF32, {num_pages_, 2 * kPageSlots});
  const Tensor chosen = memory_.mass_copy.View(DType::kF32, {int64_t(pages.size()), 2 * kPageSlots});
  backend_->GatherRows(all, list, chosen);
  std::vector<int64_t> mass(pages.size() * size_t(kPageSlots));
  backend_->CopyToHost(std::as_writable_bytes(std::span(mass)), chosen);
  return mass;
}

void PagePool::ClearMass(std::span<const int32_t> pages) {
  backend_->ZeroRows(mass(), UploadPageList(pages));
}

}  // namespace winnow
