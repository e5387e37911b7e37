// Attention of the CPU backend against the reference, by bits.
#include <gtest/gtest.h>

#include <limits>

#include "tests/compute/cpu_backends.h"

namespace winnow {
namespace {

class CpuAttention : public CpuTest {};
INSTANTIATE_TEST_SUITE_P(Kernels, CpuAttention, testing::ValuesIn(CpuVariants()), VariantName);

// Rows of several sequences. Head h of sequence s sees lengths[s] - h * ragged slots in its last row, one less in each
// row before.
struct Case {
  KvLayout kv;
  int64_t kv_heads, group;
  std::vector<int64_t> lengths;
  std::vector<int64_t> rows;  // of each sequence
  int64_t ragged = 0;
  float scale = 1;                                           // of keys and queries
  std::vector<std::pair<int64_t, float>> special_keys = {};  // (element of all keys, value)
};

struct Step {
  std::vector<int32_t> sequence, visible;
};

Step AllRows(const Case& c) {
  Step step;
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

// Pages hold random keys and values up to each head's length; everything else is 0xff, which is NaN.
class Cache {
 public:
  Cache(Backend& backend, DeviceTensors& tensors, const Case& c) : tensors_(tensors), backend_(backend), c_(c) {
    int64_t longest = 0;
    for (int64_t length : c.lengths) longest = std::max(longest, length);
    max_pages_ = (longest + 15) / 16 + 1;
    const int64_t sequences = int64_t(c.lengths.size()), num_pages = sequences * c.kv_heads * max_pages_;
    pages_ = tensors.Empty(DType::kF32, {num_pages * c.kv.page_bytes() / 4});
    backend.Fill(pages_, 0xff);
    for (int64_t i = 0; i < num_pages; ++i) table_.push_back(int32_t(num_pages - 1 - i));
    std::vector<int32_t> slots;
    int64_t total = 0;
    for (int64_t s = 0; s < sequences; ++s) {
      for (int64_t h = 0; h < c.kv_heads; ++h) {
        for (int64_t j = 0; j < c.lengths[size_t(s)] - h * c.ragged; ++j, ++total) {
          slots.push_back(int32_t(table_[size_t((s * c.kv_heads + h) * max_pages_ + j / 16)] * 16 + j % 16));
        }
      }
    }
    const int64_t head_dim = c.kv.head_dim;
    std::vector<float> keys = RandomFloats(1, total * head_dim, c.scale), cos_sin;
    for (const auto& [element, value] : c.special_keys) keys[size_t(element)] = value;
    for (int64_t i = 0; i < total * head_dim; ++i) cos_sin.push_back(i % head_dim < head_dim / 2 ? 1.0f : 0.0f);
    backend.RopeAppend({tensors.Empty(DType::kF32, {total, 1, head_dim}), tensors.Floats({total, 1, head_dim}, keys),
                        tensors.Floats({total, 1, head_dim}, RandomFloats(2, total * head_dim)),
                        tensors.Floats({total, head_dim}, cos_sin), tensors.Ints({total, 1}, slots), pages_, c.kv,
                        1.0f});
  }

  // q of all rows of the step starts with random number `first`.
  std::vector<float> Attend(const Step& step, int64_t first = 0) {
    const int64_t rows = int64_t(step.sequence.size()), heads = c_.kv_heads * c_.group, head_dim = c_.kv.head_dim;
    std::vector<float> q;
    for (int64_t i = 0; i < rows * heads * head_dim; ++i) {
      q.push_back((2 * OpenUnitFloat(RandomBits(3, first + i)) - 1) * c_.scale);
    }
    const Tensor out = tensors_.Empty(DType::kF32, {rows, heads, head_dim});
    backend_.Attention({tensors_.Floats({rows, heads, head_dim}, q), out,
                        tensors_.Ints({int64_t(c_.lengths.size()), c_.kv_heads, max_pages_}, table_),
                        tensors_.Ints({rows}, step.sequence), tensors_.Ints({rows, c_.kv_heads}, step.visible), pages_,
                        c_.kv});
    return tensors_.Get(out);
  }

 private:
  DeviceTensors& tensors_;
  Backend& backend_;
  const Case& c_;
  int64_t max_pages_ = 0;
  Tensor pages_;
  std::vector<int32_t> table_;
};

void ExpectSame(Backend& cpu, Backend& reference, const Case& c) {
  DeviceTensors cpu_tensors(cpu), reference_tensors(reference);
  const Step step = AllRows(c);
  ExpectSameFloats(Cache(cpu, cpu_tensors, c).Attend(step), Cache(reference, reference_tensors, c).Attend(step));
}

const std::vector<int64_t> kEdges = {1, 15, 16, 17, 127, 128, 129, 300};

TEST_P(CpuAttention, DecodeHasTheBitsOfTheReferenceAtEveryEdge) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int64_t group : {1, 2, 3, 4, 7, 8, 20}) {
      SCOPED_TRACE(group);
      ExpectSame(*cpu_, *reference_, {{32, dtype}, 2, group, kEdges, std::vector<int64_t>(kEdges.size(), 1)});
    }
  }
}

TEST_P(CpuAttention, TakesEveryHeadDimension) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int64_t head_dim = 16; head_dim <= 128; head_dim += 16) {
      SCOPED_TRACE(head_dim);
      for (int64_t group : {1, 2, 3}) ExpectSame(*cpu_, *reference_, {{head_dim, dtype}, 1, group, {50, 140}, {1, 3}});
    }
  }
}

TEST_P(CpuAttention, PrefillHasTheBitsOfTheReference) {
  for (int64_t group : {1, 3, 4, 7, 17}) {
    SCOPED_TRACE(group);
    // From the first token on, across a block's edge, and one row among the chunks.
    ExpectSame(*cpu_, *reference_, {{32, DType::kBF16}, 2, group, {20, 140, 33, 17}, {20, 30, 1, 9}});
  }
}

TEST_P(CpuAttention, HeadsMaySeeDifferentNumbersOfSlots) {
  ExpectSame(*cpu_, *reference_, {{32, DType::kBF16}, 3, 3, {290, 300, 270}, {1, 40, 5}, 65});
}

TEST_P(CpuAttention, ARowHasTheSameBitsAloneAndInAChunk) {
  const Case c = {{64, DType::kBF16}, 2, 3, {140, 60}, {40, 7}, 11};
  DeviceTensors tensors(*cpu_);
  Cache cache(*cpu_, tensors, c);
  const Step all = AllRows(c);
  const std::vector<float> together = cache.Attend(all);
  const int64_t row_floats = 6 * 64;
  for (size_t r = 0; r < all.sequence.size(); ++r) {
    const Step one = {{all.sequence[r]}, {all.visible[2 * r], all.visible[2 * r + 1]}};
    const auto begin = together.begin() + int64_t(r) * row_floats;
    ExpectSameFloats(cache.Attend(one, int64_t(r) * row_floats), std::vector<float>(begin, begin + row_floats));
  }
}

// Scores so far apart that weights become exact zeros, and so large that they overflow.
TEST_P(CpuAttention, KeepsExtremeScoresExact) {
  for (float scale : {1e-20f, 30.0f, 1e18f, 1e19f, 3e19f}) {
    SCOPED_TRACE(scale);
    ExpectSame(*cpu_, *reference_, {{32, DType::kBF16}, 2, 3, {129, 300}, {5, 1}, 0, scale});
  }
}

TEST_P(CpuAttention, ANaNKeySpoilsTheRowsThatSeeItAndNoOthers) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  // Slot 135 of 140: rows with fewer than 136 visible slots stay clean.
  for (float value : {nan, infinity, -infinity}) {
    const Case c = {{32, DType::kF32}, 1, 3, {140}, {12}, 0, 1, {{135 * 32 + 7, value}}};
    ExpectSame(*cpu_, *reference_, c);
    DeviceTensors tensors(*cpu_);
    const std::vector<float> out = Cache(*cpu_, tensors, c).Attend(AllRows(c));
    for (size_t i = 0; i < 7 * 3 * 32; ++i) ASSERT_FALSE(std::isnan(out[i]));
    if (std::isnan(value)) {
      for (size_t i = 7 * 3 * 32; i < out.size(); ++i) ASSERT_EQ(FloatBits(out[i]), 0x7fc00000u);
    }
  }
}

}  // namespace
}  // namespace winnow
