// The page tables, write slots and visible lengths of one step, for all layers, on the device: what the attention ops
// read. Built by the host from SequenceCaches after Append. One per model runner, reused from step to step. Engine
// thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "compute/backend.h"
#include "kv/sequence_cache.h"

namespace winnow {

// One sequence's part of a step: its cache, to which `num_rows` tokens were appended last.
struct KvBatchItem {
  const SequenceCache* cache;
  int64_t num_rows;
};

class KvBatch {
 public:
  explicit KvBatch(Backend& backend) : backend_(backend) {}

  // Uploads the tables of a step. Items in row order, at least one; all caches have the same layers and heads.
  // OutOfMemory if the tables outgrow the device; the tables of the step before then stay as they are.
  Status Build(std::span<const KvBatchItem> items);

  int64_t num_rows() const { return num_rows_; }
  Tensor page_table(int64_t layer) const;      // [sequences, kv_heads, max_pages] i32
  Tensor physical_slots(int64_t layer) const;  // [rows, kv_heads] i32
  Tensor visible(int64_t layer) const;         // [rows, kv_heads] i32
  Tensor row_sequence() const;                 // [rows] i32

 private:
  Backend& backend_;
  int64_t num_rows_ = 0, num_layers_ = 0, num_kv_heads_ = 0, num_sequences_ = 0, max_pages_ = 0;
  Buffer tables_, slots_, visible_, row_sequence_;
  // Built here, then uploaded; kept so that a step allocates nothing. The axes above, behind an axis of layers.
  std::vector<int32_t> host_tables_, host_slots_, host_visible_, host_row_sequence_;
};

}  // namespace winnow
