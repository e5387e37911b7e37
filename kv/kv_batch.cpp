#include "kv/kv_batch.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace winnow {
namespace {

// Makes room for `count` numbers. Powers of two, so that a text growing page by page seldom allocates.
Status Grow(Backend& backend, int64_t count, Buffer& buffer) {
  const int64_t bytes = count * int64_t(sizeof(int32_t));
  if (bytes <= buffer.bytes()) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(buffer, backend.Allocate(int64_t(std::bit_ceil(uint64_t(bytes)))));
  return OkStatus();
}

}  // namespace

Status KvBatch::Build(std::span<const KvBatchItem> items) {
  WINNOW_CHECK(!items.empty());
  const int64_t num_sequences = int64_t(items.size());
  const int64_t num_layers = items[0].cache->num_layers(), num_kv_heads = items[0].cache->num_kv_heads();
  int64_t num_rows = 0, max_length = 0;
  for (const KvBatchItem& item : items) {
    WINNOW_CHECK(item.cache->num_layers() == num_layers && item.cache->num_kv_heads() == num_kv_heads);
    WINNOW_CHECK(item.num_rows > 0);
    num_rows += item.num_rows;
    max_length = std::max(max_length, item.cache->max_length());
  }
  const int64_t max_pages = (max_length + kPageSlots - 1) / kPageSlots;

  // Memory first: if it fails, the tables of the step before are untouched.
  const int64_t num_tables = num_layers * num_sequences * num_kv_heads * max_pages;
  const int64_t num_slots = num_layers * num_rows * num_kv_heads;
  WINNOW_RETURN_IF_ERROR(Grow(backend_, num_tables, tables_));
  WINNOW_RETURN_IF_ERROR(Grow(backend_, num_slots, slots_));
  WINNOW_RETURN_IF_ERROR(Grow(backend_, num_slots, visible_));
  WINNOW_RETURN_IF_ERROR(Grow(backend_, num_rows, row_sequence_));
  num_rows_ = num_rows, num_layers_ = num_layers, num_kv_heads_ = num_kv_heads;
  num_sequences_ = num_sequences, max_pages_ = max_pages;

  host_tables_.resize(size_t(num_tables));
  host_slots_.resize(size_t(num_slots));
  host_visible_.resize(size_t(num_slots));
  host_row_sequence_.resize(size_t(num_rows));
  int32_t* table = host_tables_.data();
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    int64_t first_row = 0;
    for (const KvBatchItem& item : items) {
      for (int64_t local_head = 0; local_head < num_kv_heads; ++local_head, table += max_pages) {
        const HeadCache& head = item.cache->head(layer, local_head);
        const int64_t first_slot = head.length() - item.num_rows;
        WINNOW_CHECK(first_slot >= 0);
        // Reserved pages beyond the length stay out; they need not fit into max_pages.
        const int64_t num_pages = (head.length() + kPageSlots - 1) / kPageSlots;
        std::memcpy(table, head.pages.data(), size_t(num_pages) * sizeof(int32_t));
        for (int64_t i = 0; i < item.num_rows; ++i) {
          const size_t at = size_t((layer * num_rows + first_row + i) * num_kv_heads + local_head);
          host_slots_[at] = head.PhysicalSlot(first_slot + i);
          host_visible_[at] = int32_t(first_slot + i + 1);
        }
      }
      first_row += item.num_rows;
    }
  }
  auto row = host_row_sequence_.begin();
  for (int64_t sequence = 0; sequence < num_sequences; ++sequence) {
    row = std::fill_n(row, items[size_t(sequence)].num_rows, int32_t(sequence));
  }

  const auto upload = [&](const Buffer& buffer, const std::vector<int32_t>& host) {
    backend_.CopyToDevice(buffer.View(DType::kI32, {int64_t(host.size())}), std::as_bytes(std::span(host)));
  };
  upload(tables_, host_tables_);
  upload(slots_, host_slots_);
  upload(visible_, host_visible_);
  upload(row_sequence_, host_row_sequence_);
  return OkStatus();
}

Tensor KvBatch::page_table(int64_t layer) const {
  return tables_.View(DType::kI32, {num_layers_, num_sequences_, num_kv_heads_, max_pages_}).At(layer);
}

Tensor KvBatch::physical_slots(int64_t layer) const {
  return slots_.View(DType::kI32, {num_layers_, num_rows_, num_kv_heads_}).At(layer);
}

Tensor KvBatch::visible(int64_t layer) const {
  return visible_.View(DType::kI32, {num_layers_, num_rows_, num_kv_heads_}).At(layer);
}

Tensor KvBatch::row_sequence() const {
  return row_sequence_.View(DType::kI32, {num_rows_});
}

}  // namespace winnow
