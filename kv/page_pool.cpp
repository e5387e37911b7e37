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

}  // namespace

Result<std::unique_ptr<PagePool>> PagePool::Make(Backend& backend, const KvLayout& layout, int64_t num_pages) {
  WINNOW_CHECK(layout.head_dim > 0 && layout.head_dim % 16 == 0);
  constexpr int64_t kMaxPages = std::numeric_limits<int32_t>::max() / kPageSlots;
  if (num_pages < 1 || num_pages > kMaxPages) {
    return InvalidArgument("KV pool: expected 1 to " + std::to_string(kMaxPages) + " pages, found " +
                           std::to_string(num_pages));
  }
  const int64_t bytes = num_pages * layout.page_bytes();
  const int64_t max_moves = std::min(num_pages * kPageSlots, kMaxMovesPerCall);
  Result<Buffer> memory = backend.Allocate(bytes);
  Result<Buffer> moves = backend.Allocate(max_moves * 2 * int64_t(sizeof(int32_t)));
  if (!memory.ok() || !moves.ok()) {
    return OutOfMemory("KV pool: " + std::to_string(num_pages) + " pages of " + std::to_string(layout.page_bytes()) +
                       " bytes (" + std::to_string(bytes) + " bytes in all) could not be allocated on " +
                       backend.name());
  }
  return std::unique_ptr<PagePool>(
      new PagePool(backend, layout, num_pages, std::move(memory).value(), std::move(moves).value()));
}

PagePool::PagePool(Backend& backend, const KvLayout& layout, int64_t num_pages, Buffer memory, Buffer moves)
    : backend_(&backend),
      layout_(layout),
      num_pages_(num_pages),
      memory_(std::move(memory)),
      moves_(std::move(moves)),
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
  const size_t max_numbers = size_t(moves_.bytes()) / sizeof(int32_t);
  while (!moves.empty()) {
    const std::span<const int32_t> part = moves.first(std::min(moves.size(), max_numbers));
    const Tensor list = moves_.View(DType::kI32, {int64_t(part.size() / 2), 2});
    backend_->CopyToDevice(list, std::as_bytes(part));
    backend_->Compact({.moves = list, .pages = pages(), .kv = layout_});
    moves = moves.subspan(part.size());
  }
}

Tensor PagePool::pages() const {
  return memory_.View(DType::kF32, {num_pages_ * layout_.page_bytes() / int64_t(sizeof(float))});
}

}  // namespace winnow
