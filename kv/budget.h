// How many slots each head of a sequence keeps after an eviction. A total over all heads of the model is divided
// without loss: every head keeps the same number, and what is left over goes one each to the first heads. A function of
// the model's numbers alone, so the same for any rank count. Any thread.
#pragma once

#include <cstdint>

namespace winnow {

// Heads of the whole model, and the bytes that one head's key and value of one token take.
struct KvShape {
  int64_t num_layers = 0;
  int64_t num_kv_heads = 0;  // of a layer, over all ranks
  int64_t entry_bytes = 0;

  int64_t num_heads() const { return num_layers * num_kv_heads; }
};

struct KvBudget {
  int64_t tokens = 0;        // that every head keeps
  int64_t larger_heads = 0;  // the first heads in (layer, KV head of the model) order that keep one more
  int64_t num_kv_heads = 0;  // of a layer, over all ranks; needed with larger_heads

  int64_t BudgetOf(int64_t layer, int64_t global_head) const {
    return tokens + (layer * num_kv_heads + global_head < larger_heads);
  }
  int64_t TotalEntries(int64_t num_layers) const { return tokens * num_layers * num_kv_heads + larger_heads; }
};

// Divides total_entries >= 0. heads_per_set: heads that share a kept set (1, those of a layer, or all of them) keep
// equally many, so that only whole sets grow; less than one set's worth of entries then stays unspent.
KvBudget DivideEntries(int64_t total_entries, const KvShape& shape, int64_t heads_per_set);

// Whole entries in a number of bytes.
int64_t EntriesInBytes(int64_t bytes, const KvShape& shape);

// Whole entries in a share of what a full cache of num_tokens tokens holds. ratio > 0, at most 1. A ratio that is a
// decimal fraction means that fraction: 0.29 of 100 is 29, although the nearest double lies below.
int64_t EntriesInRatio(double ratio, int64_t num_tokens, const KvShape& shape);

}  // namespace winnow
