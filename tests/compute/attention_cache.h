// For tests of attention: sequences of random keys and values in a pool whose other slots are poison, and steps over
// them. One thread.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/compute/device_tensors.h"

namespace winnow {

// Rows of several sequences. Head h of sequence s sees lengths[s] - h * ragged slots in its last row, one less in each
// row before.
struct AttentionCase {
  KvLayout kv;
  int64_t kv_heads, group;
  std::vector<int64_t> lengths;
  std::vector<int64_t> rows;  // of each sequence
  int64_t ragged = 0;
  float scale = 1;                                           // of keys and queries
  std::vector<std::pair<int64_t, float>> special_keys = {};  // (element of all keys, value)
};

struct AttentionStep {
  std::vector<int32_t> sequence, visible;
};

inline AttentionStep AllRows(const AttentionCase& c) {
  AttentionStep step;
  for (size_t s = 0; s < c.rows.size(); ++s) {
    for (int64_t r = 0; r < c.rows[s]; ++r) {
      step.sequence.push_back(int32_t(s));
      for (int64_t h = 0; h < c.kv_heads; ++h) {
        step.visible.push_back(int32_t(c.lengths[s] - h * c.ragged - (c.rows[s] - 1 - r)));
      }
    }
  }
  return step;
}

// Pages hold random keys and values up to each head's length; everything else is 0xff, which is NaN, and -1 in the
// mass.
class AttentionCache {
 public:
  // `backend`, `tensors` and `c` must outlive it.
  AttentionCache(Backend& backend, DeviceTensors& tensors, const AttentionCase& c)
      : tensors_(tensors), backend_(backend), c_(c) {
    int64_t longest = 0;
    for (int64_t length : c.lengths) longest = std::max(longest, length);
    max_pages_ = (longest + 15) / 16 + 1;
    const int64_t sequences = int64_t(c.lengths.size()), num_pages = sequences * c.kv_heads * max_pages_;
    pages_ = tensors.Empty(DType::kF32, {num_pages * c.kv.page_bytes() / 4});
    mass_ = tensors.Empty(DType::kI64, {num_pages, 16});
    peaks_ = tensors.Empty(DType::kF32, {sequences, c.kv_heads * c.group, max_pages_ * 16 + 16});
    backend.Fill(pages_, 0xff);
    backend.Fill(mass_, 0xff);
    for (int64_t i = 0; i < num_pages; ++i) table_.push_back(int32_t(num_pages - 1 - i));
    std::vector<int32_t> slots;
    for (int64_t s = 0; s < sequences; ++s) {
      for (int64_t h = 0; h < c.kv_heads; ++h) {
        first_key_.push_back(int64_t(slots.size()));
        for (int64_t j = 0; j < c.lengths[size_t(s)] - h * c.ragged; ++j) {
          slots.push_back(int32_t(PhysicalSlot(s, h, j)));
        }
      }
    }
    const int64_t head_dim = c.kv.head_dim, total = int64_t(slots.size());
    keys_ = RandomFloats(1, total * head_dim, c.scale);
    for (const auto& [element, value] : c.special_keys) keys_[size_t(element)] = value;
    std::vector<float> cos_sin;
    for (int64_t i = 0; i < total * head_dim; ++i) cos_sin.push_back(i % head_dim < head_dim / 2 ? 1.0f : 0.0f);
    backend.RopeAppend({tensors.Empty(DType::kF32, {total, 1, head_dim}), tensors.Floats({total, 1, head_dim}, keys_),
                        tensors.Floats({total, 1, head_dim}, RandomFloats(2, total * head_dim)),
                        tensors.Floats({total, head_dim}, cos_sin), tensors.Ints({total, 1}, slots), pages_, c.kv, 1.0f,
                        mass_});
  }

  // Queries [rows, query_heads, head_dim] of a step, from random number `first` on.
  std::vector<float> Queries(const AttentionStep& step, int64_t first = 0) const {
    const int64_t rows = int64_t(step.sequence.size());
    std::vector<float> q;
    for (int64_t i = 0; i < rows * c_.kv_heads * c_.group * c_.kv.head_dim; ++i) {
      q.push_back((2 * OpenUnitFloat(RandomBits(3, first + i)) - 1) * c_.scale);
    }
    return q;
  }

  // Outputs of a step; `observe` and `peak_scale` have one number a row, or none at all for a step without statistics.
  std::vector<float> Attend(const AttentionStep& step, int64_t first = 0, const std::vector<int32_t>& observe = {},
                            const std::vector<float>& peak_scale = {}) {
    const int64_t rows = int64_t(step.sequence.size()), heads = c_.kv_heads * c_.group, head_dim = c_.kv.head_dim;
    const Tensor out = tensors_.Empty(DType::kF32, {rows, heads, head_dim});
    AttentionArgs args = {tensors_.Floats({rows, heads, head_dim}, Queries(step, first)),
                          out,
                          tensors_.Ints({int64_t(c_.lengths.size()), c_.kv_heads, max_pages_}, table_),
                          tensors_.Ints({rows}, step.sequence),
                          tensors_.Ints({rows, c_.kv_heads}, step.visible),
                          pages_,
                          c_.kv};
    if (!observe.empty()) {
      args.observe = tensors_.Ints({rows}, observe);
      args.mass = mass_;
    }
    if (!peak_scale.empty()) {
      args.peak_scale = tensors_.Floats({rows}, peak_scale);
      args.peaks = peaks_;
    }
    backend_.Attention(args);
    return tensors_.Get(out);
  }

  int64_t PhysicalSlot(int64_t sequence, int64_t kv_head, int64_t slot) const {
    return table_[size_t((sequence * c_.kv_heads + kv_head) * max_pages_ + slot / 16)] * 16 + slot % 16;
  }
  // [head_dim], before rounding to kv.dtype.
  const float* Key(int64_t sequence, int64_t kv_head, int64_t slot) const {
    return &keys_[size_t((first_key_[size_t(sequence * c_.kv_heads + kv_head)] + slot) * c_.kv.head_dim)];
  }
  std::vector<int64_t> Mass() { return tensors_.Get<int64_t>(mass_); }
  // [sequence][query head][peak_slots()], 0 where nothing was seen.
  std::vector<float> Peaks() { return tensors_.Get<float>(peaks_); }
  int64_t peak_slots() const { return peaks_.dim(2); }

 private:
  DeviceTensors& tensors_;
  Backend& backend_;
  const AttentionCase& c_;
  int64_t max_pages_ = 0;
  Tensor pages_, mass_, peaks_;
  std::vector<int32_t> table_;
  std::vector<int64_t> first_key_;  // of every sequence and KV head
  std::vector<float> keys_;
};

}  // namespace winnow
