// Keys and values of one sequence in many layers, laid out as in a run, and the attention op on them: shared by the
// programs that measure attention. One thread owns it.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "bench/measure.h"

namespace winnow::bench {

constexpr int64_t kPrefillRows = 128;

struct Shape {
  int64_t kv_heads, group, head_dim;
  DType dtype;
  int64_t slots;           // a multiple of 16
  int64_t pages_in_a_row;  // of one head in memory, before another head's follow
};

// One sequence's keys and values in enough layers to exceed the last-level cache, and the ops on them.
class Caches {
 public:
  Caches(Backend& backend, const Shape& shape)
      : backend_(backend), shape_(shape), kv_{shape.head_dim, shape.dtype}, pages_per_head_(shape.slots / kPageSlots) {
    const int64_t layer_bytes = shape.kv_heads * pages_per_head_ * kv_.page_bytes();
    layers_ = (BeyondCacheBytes() + layer_bytes - 1) / layer_bytes;
    const int64_t heads = layers_ * shape.kv_heads, run = shape.pages_in_a_row;
    const int64_t num_pages = (pages_per_head_ + run - 1) / run * run * heads;
    pages_ = Make(num_pages * kv_.page_bytes());
    mass_ = Make(num_pages * kPageSlots * 8);
    FillPages(num_pages);
    std::vector<int32_t> table;
    for (int64_t head = 0; head < heads; ++head) {  // of all layers
      for (int64_t i = 0; i < pages_per_head_; ++i) table.push_back(int32_t((i / run * heads + head) * run + i % run));
    }
    table_ = Make(int64_t(table.size()) * 4);
    Upload(table_, DType::kI32, table);
    const int64_t floats = kPrefillRows * shape.kv_heads * shape.group * shape.head_dim;
    q_ = Make(floats * 4);
    out_ = Make(floats * 4);
    Upload(q_, DType::kF32, RandomFloats(floats));
    row_sequence_ = Make(kPrefillRows * 4);
    visible_ = Make(kPrefillRows * shape.kv_heads * 4);
    observe_ = Make(kPrefillRows * 4);
    Upload(observe_, DType::kI32, std::vector<int32_t>(size_t(kPrefillRows), 1));
  }

  // Keys and values of one call.
  int64_t bytes() const { return shape_.kv_heads * pages_per_head_ * kv_.page_bytes(); }

  // The calls that follow are of `rows` rows, the last of which sees all slots.
  void SetRows(int64_t rows) {
    rows_ = rows;
    std::vector<int32_t> visible;
    for (int64_t row = 0; row < rows; ++row) {
      visible.insert(visible.end(), size_t(shape_.kv_heads), int32_t(shape_.slots - rows + 1 + row));
    }
    Upload(visible_, DType::kI32, visible);
  }

  // The calls that follow are of one row that sees so many slots of each KV head.
  void SetVisible(const std::vector<int32_t>& slots_of_heads) {
    rows_ = 1;
    Upload(visible_, DType::kI32, slots_of_heads);
  }

  // Multiplications and additions of one call, where all heads have as many slots.
  double Flops() const {
    const double visible = double(shape_.slots) - double(rows_ - 1) / 2;
    return 4 * visible * double(rows_ * shape_.kv_heads * shape_.group * shape_.head_dim);
  }

  // One call, on the next layer.
  void Attend(bool observe) {
    const int64_t heads = shape_.kv_heads * shape_.group;
    const Tensor tables = table_.View(DType::kI32, {layers_, shape_.kv_heads, pages_per_head_});
    AttentionArgs args = {.q = q_.View(DType::kF32, {rows_, heads, shape_.head_dim}),
                          .out = out_.View(DType::kF32, {rows_, heads, shape_.head_dim}),
                          .page_table = tables.Rows(next_++ % layers_, 1),
                          .row_sequence = row_sequence_.View(DType::kI32, {rows_}),
                          .visible = visible_.View(DType::kI32, {rows_, shape_.kv_heads}),
                          .pages = pages_.View(DType::kF32, {pages_.bytes() / 4}),
                          .kv = kv_};
    if (observe) {
      args.observe = observe_.View(DType::kI32, {rows_});
      args.mass = mass_.View(DType::kI64, {mass_.bytes() / (kPageSlots * 8), kPageSlots});
    }
    backend_.Attention(args);
  }

 private:
  Buffer Make(int64_t bytes) { return std::move(backend_.Allocate(bytes).value()); }

  template <class T>
  void Upload(const Buffer& to, DType dtype, const std::vector<T>& values) {
    backend_.CopyToDevice(to.View(dtype, {int64_t(values.size())}), std::as_bytes(std::span(values)));
  }

  static std::vector<float> RandomFloats(int64_t count) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(OpenUnitFloat(Philox(1, {uint32_t(i), 0, 0, 0})[0]) - 0.5f);
    return values;
  }

  // The same random page again and again: only its bytes' number counts, and softmax sees ordinary scores.
  void FillPages(int64_t num_pages) {
    std::vector<std::byte> page(size_t(kv_.page_bytes()));
    const std::vector<float> values = RandomFloats(2 * kPageSlots * shape_.head_dim);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&values[i]);  // bfloat16 is the upper half of a float
      if (shape_.dtype == DType::kBF16) {
        std::copy(bytes + 2, bytes + 4, &page[2 * i]);
      } else {
        std::copy(bytes, bytes + 4, &page[4 * i]);
      }
    }
    const Tensor all = pages_.View(DType::kF32, {num_pages, kv_.page_bytes() / 4});
    for (int64_t i = 0; i < num_pages; ++i) backend_.CopyToDevice(all.Rows(i, 1), page);
  }

  Backend& backend_;
  const Shape shape_;
  const KvLayout kv_;
  const int64_t pages_per_head_;
  int64_t layers_ = 0, rows_ = 0, next_ = 0;
  Buffer pages_, mass_, table_, q_, out_, row_sequence_, visible_, observe_;
};

}  // namespace winnow::bench
