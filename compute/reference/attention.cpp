#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/exact_math.h"
#include "compute/reference/kv_page.h"
#include "compute/reference/lanes.h"
#include "compute/reference/reference_backend.h"

namespace winnow {
namespace {

// Softmax over one block of 128 slots (by slot index), relative to the block's own maximum.
struct BlockSum {
  float top = -1e30f;
  float weight[kLanes] = {};   // lane = slot % 16
  std::vector<float> values;   // [head_dim], not yet divided by the weight
  std::vector<float> weights;  // of the slots
};

// One query head of one row. The same arithmetic for prefill and decode: it depends on the row's own slots alone.
class HeadAttention {
 public:
  HeadAttention(const AttentionArgs& args, int64_t row, int64_t kv_head)
      : args_(args),
        row_(row),
        head_dim_(args.kv.head_dim),
        visible_(args.visible.as<int32_t>()[row * KvHeads() + kv_head]) {
    const int64_t max_pages = args.page_table.dim(2), sequence = args.row_sequence.as<int32_t>()[row];
    WINNOW_CHECK(sequence >= 0 && sequence < args.page_table.dim(0));
    WINNOW_CHECK(visible_ > 0 && visible_ <= max_pages * kPageSlots);
    table_ = args.page_table.as<int32_t>() + (sequence * KvHeads() + kv_head) * max_pages;
  }

  void Compute(int64_t query_head) const {
    const int64_t offset = (row_ * args_.q.dim(1) + query_head) * head_dim_;
    const float* q = args_.q.as<float>() + offset;
    float* out = args_.out.as<float>() + offset;
    std::vector<float> scores;
    for (int64_t j = 0; j < visible_; ++j) scores.push_back(Score(q, Slot(j)));
    // A maximum that skips NaN would depend on the order of slots, so NaN is handled first.
    if (std::any_of(scores.begin(), scores.end(), [](float s) { return std::isnan(s); })) {
      std::fill(out, out + head_dim_, std::numeric_limits<float>::quiet_NaN());
      return;
    }
    std::vector<BlockSum> blocks;
    for (int64_t begin = 0; begin < visible_; begin += kAttentionBlockSlots) {
      blocks.push_back(SumBlock(scores, begin, std::min(visible_, begin + kAttentionBlockSlots)));
    }
    const float reciprocal = Merge(blocks, out);
    const bool observed = args_.observe.data() != nullptr && args_.observe.as<int32_t>()[row_] != 0;
    // The largest weight is 1, so the sum is at least 1, unless infinite scores have made all weights 0.
    if (observed && reciprocal <= 1) AddMass(blocks, reciprocal);
    if (args_.peaks.data() != nullptr && reciprocal <= 1) RaisePeaks(blocks, reciprocal, query_head);
  }

 private:
  int64_t KvHeads() const { return args_.page_table.dim(1); }
  ReferenceSlot Slot(int64_t j) const {
    return {args_.pages, args_.kv, table_[j / kPageSlots] * kPageSlots + j % kPageSlots};
  }

  float Score(const float* q, const ReferenceSlot& slot) const {
    float acc = 0;
    for (int64_t i = 0; i < head_dim_; ++i) acc = std::fma(slot.Read(slot.KeyIndex(i)), q[i], acc);
    return acc;
  }

  BlockSum SumBlock(const std::vector<float>& scores, int64_t begin, int64_t end) const {
    BlockSum block;
    block.values.assign(size_t(head_dim_), 0.0f);
    for (int64_t j = begin; j < end; ++j) block.top = std::max(block.top, scores[size_t(j)]);
    for (int64_t j = begin; j < end; ++j) {
      const float p = ExactExp(scores[size_t(j)] - block.top);
      block.weight[j % kLanes] += p;
      block.weights.push_back(p);
      const ReferenceSlot slot = Slot(j);
      for (int64_t i = 0; i < head_dim_; ++i) {
        block.values[size_t(i)] = std::fma(slot.Read(slot.ValueIndex(i)), p, block.values[size_t(i)]);
      }
    }
    return block;
  }

  // Blocks in order, each scaled by exp(its maximum - the largest). Returns the reciprocal of the sum of weights.
  float Merge(const std::vector<BlockSum>& blocks, float* out) const {
    float top = blocks[0].top;
    for (const BlockSum& block : blocks) top = std::max(top, block.top);
    float weight[kLanes] = {};
    std::fill(out, out + head_dim_, 0.0f);
    for (const BlockSum& block : blocks) {
      const float scale = ExactExp(block.top - top);
      for (int lane = 0; lane < kLanes; ++lane) weight[lane] = std::fma(scale, block.weight[lane], weight[lane]);
      for (int64_t i = 0; i < head_dim_; ++i) out[i] = std::fma(scale, block.values[size_t(i)], out[i]);
    }
    const float reciprocal = 1.0f / SumLanes(weight);
    for (int64_t i = 0; i < head_dim_; ++i) out[i] *= reciprocal;
    return reciprocal;
  }

  // The softmax weight of slot j times `unit`.
  float Weight(const std::vector<BlockSum>& blocks, float unit, float reciprocal, int64_t j) const {
    float top = blocks[0].top;
    for (const BlockSum& block : blocks) top = std::max(top, block.top);
    const BlockSum& block = blocks[size_t(j / kAttentionBlockSlots)];
    const float of_weight = unit * ExactExp(block.top - top) * reciprocal;
    return block.weights[size_t(j % kAttentionBlockSlots)] * of_weight;
  }

  void AddMass(const std::vector<BlockSum>& blocks, float reciprocal) const {
    for (int64_t j = 0; j < visible_; ++j) {
      const int64_t slot = table_[j / kPageSlots] * kPageSlots + j % kPageSlots;
      args_.mass.as<int64_t>()[slot] += int64_t(std::nearbyint(Weight(blocks, kMassSteps, reciprocal, j)));
    }
  }

  void RaisePeaks(const std::vector<BlockSum>& blocks, float reciprocal, int64_t query_head) const {
    const int64_t sequence = args_.row_sequence.as<int32_t>()[row_];
    float* peaks = args_.peaks.as<float>() + (sequence * args_.q.dim(1) + query_head) * args_.peaks.dim(2);
    const float scale = args_.peak_scale.as<float>()[row_];
    for (int64_t j = 0; j < visible_; ++j) peaks[j] = std::max(peaks[j], Weight(blocks, scale, reciprocal, j));
  }

  const AttentionArgs& args_;
  const int64_t row_;
  const int64_t head_dim_;
  const int64_t visible_;
  const int32_t* table_;  // [max_pages] of this sequence and head
};

}  // namespace

void ReferenceBackend::DoAttention(const AttentionArgs& args) {
  const int64_t query_heads = args.q.dim(1), group = query_heads / args.page_table.dim(1);
  for (int64_t r = 0; r < args.q.dim(0); ++r) {
    for (int64_t h = 0; h < query_heads; ++h) HeadAttention(args, r, h / group).Compute(h);
  }
}

}  // namespace winnow
