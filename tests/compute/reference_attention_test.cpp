// Attention of the reference backend against a naive softmax in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compute/weight_blocks.h"
#include "tests/compute/device_tensors.h"

namespace winnow {
namespace {

constexpr int64_t kHeadDim = 32, kKvHeads = 2, kQueryHeads = 6, kMaxPages = 24;

// Sequences whose pages lie shuffled in one pool, every slot beyond their length NaN.
class ReferenceAttention : public testing::TestWithParam<DType> {
 protected:
  // Appends `length` random slots per sequence and KV head. Page p of (sequence s, head h) is a page of its own.
  void FillPages(const std::vector<int64_t>& lengths) {
    lengths_ = lengths;
    const int64_t num_pages = int64_t(lengths.size()) * kKvHeads * kMaxPages;
    pages_ = tensors_.Empty(DType::kF32, {num_pages * kv_.page_bytes() / 4});
    backend_->Fill(pages_, 0xff);
    table_.assign(size_t(num_pages), -1);
    for (int64_t s = 0; s < int64_t(lengths.size()); ++s) {
      for (int64_t h = 0; h < kKvHeads; ++h) {
        for (int64_t p = 0; p < (lengths[size_t(s)] + 15) / 16; ++p) {
          const int64_t index = (s * kKvHeads + h) * kMaxPages + p;
          table_[size_t(index)] = int32_t(index * 7 % num_pages);  // 7 does not divide num_pages: a permutation
        }
      }
      Append(s);
    }
  }
  void Append(int64_t s) {
    const int64_t rows = lengths_[size_t(s)];
    keys_.push_back(RandomFloats(uint64_t(10 + s), rows * kKvHeads * kHeadDim, 3));
    values_.push_back(RandomFloats(uint64_t(20 + s), rows * kKvHeads * kHeadDim));
    std::vector<int32_t> slots;
    std::vector<float> cos_sin;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < kKvHeads; ++h) {
        slots.push_back(int32_t(table_[size_t((s * kKvHeads + h) * kMaxPages + r / 16)] * 16 + r % 16));
      }
      for (int64_t i = 0; i < kHeadDim; ++i) cos_sin.push_back(i < kHeadDim / 2 ? 1.0f : 0.0f);  // no rotation
    }
    backend_->RopeAppend(
        {tensors_.Empty(DType::kF32, {rows, 1, kHeadDim}), tensors_.Floats({rows, kKvHeads, kHeadDim}, keys_.back()),
         tensors_.Floats({rows, kKvHeads, kHeadDim}, values_.back()), tensors_.Floats({rows, kHeadDim}, cos_sin),
         tensors_.Ints({rows, kKvHeads}, slots), pages_, kv_, 1.0f});
    for (std::vector<float>* stored : {&keys_.back(), &values_.back()}) {
      for (float& x : *stored) x = kv_.dtype == DType::kF32 ? x : BFloat16ToFloat(FloatToBFloat16(x));
    }
  }

  std::vector<float> Attend(const std::vector<float>& q, const std::vector<int32_t>& sequence,
                            const std::vector<int32_t>& visible) {
    const int64_t rows = int64_t(sequence.size());
    const Tensor out = tensors_.Empty(DType::kF32, {rows, kQueryHeads, kHeadDim});
    backend_->Attention({tensors_.Floats({rows, kQueryHeads, kHeadDim}, q), out,
                         tensors_.Ints({int64_t(lengths_.size()), kKvHeads, kMaxPages}, table_),
                         tensors_.Ints({rows}, sequence), tensors_.Ints({rows, kKvHeads}, visible), pages_, kv_});
    return tensors_.Get(out);
  }

  // q [head_dim], the whole softmax at once.
  std::vector<double> Naive(const float* q, int64_t s, int64_t kv_head, int64_t visible) const {
    std::vector<double> scores, out(kHeadDim);
    double top = -1e300, total = 0;
    const auto at = [&](int64_t slot, int64_t i) { return size_t((slot * kKvHeads + kv_head) * kHeadDim + i); };
    for (int64_t j = 0; j < visible; ++j) {
      double score = 0;
      for (int64_t i = 0; i < kHeadDim; ++i) score += double(q[i]) * double(keys_[size_t(s)][at(j, i)]);
      scores.push_back(score);
      top = std::max(top, score);
    }
    for (int64_t j = 0; j < visible; ++j) {
      const double p = std::exp(scores[size_t(j)] - top);
      total += p;
      for (int64_t i = 0; i < kHeadDim; ++i) out[size_t(i)] += p * double(values_[size_t(s)][at(j, i)]);
    }
    for (double& x : out) x /= total;
    return out;
  }

  const KvLayout kv_{kHeadDim, GetParam()};
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  DeviceTensors tensors_{*backend_};
  std::vector<int64_t> lengths_;
  std::vector<int32_t> table_;
  Tensor pages_;
  std::vector<std::vector<float>> keys_, values_;  // per sequence [length, kv_heads, head_dim], as rounded
};

// Lengths at and around the edges of pages (16) and blocks (128), heads that see different numbers of slots.
TEST_P(ReferenceAttention, AgreesWithANaiveSoftmaxAndNeverReadsPoison) {
  FillPages({1, 16, 127, 129, 300});
  std::vector<int32_t> sequence, visible;
  for (int32_t s = 0; s < 5; ++s) {
    const auto length = int32_t(lengths_[size_t(s)]);
    for (int32_t back = std::min(length - 1, 2); back >= 0; --back) {
      sequence.push_back(s);
      visible.push_back(length - back);
      visible.push_back(std::max(1, length - 13 - back));
    }
  }
  const std::vector<float> q = RandomFloats(5, int64_t(sequence.size()) * kQueryHeads * kHeadDim);
  const std::vector<float> out = Attend(q, sequence, visible);
  for (size_t r = 0; r < sequence.size(); ++r) {
    for (int64_t h = 0; h < kQueryHeads; ++h) {
      const size_t at = (r * kQueryHeads + size_t(h)) * kHeadDim;
      const int64_t kv_head = h / 3;
      const std::vector<double> expected = Naive(&q[at], sequence[r], kv_head, visible[r * kKvHeads + size_t(kv_head)]);
      for (size_t i = 0; i < kHeadDim; ++i) ASSERT_NEAR(out[at + i], expected[i], 5e-6) << "row " << r << " head " << h;
    }
  }
}

TEST_P(ReferenceAttention, ARowHasTheSameBitsAloneAndInABatch) {
  FillPages({200, 40});
  const std::vector<float> q = RandomFloats(6, 3 * kQueryHeads * kHeadDim);
  const std::vector<float> batch = Attend(q, {0, 0, 1}, {199, 150, 200, 151, 40, 40});
  constexpr int64_t kWidth = kQueryHeads * kHeadDim;
  const std::vector<float> alone = Attend({q.begin() + kWidth, q.begin() + 2 * kWidth}, {0}, {200, 151});
  ExpectSameFloats(alone, {batch.begin() + kWidth, batch.begin() + 2 * kWidth});
}

TEST_P(ReferenceAttention, OneSlotGivesItsValueWhateverTheScore) {
  FillPages({1});
  for (float size : {0.0f, 1.0f, 1e4f, -1e4f}) {
    const std::vector<float> out = Attend(std::vector<float>(kQueryHeads * kHeadDim, size), {0}, {1, 1});
    for (size_t h = 0; h < kQueryHeads; ++h) {
      for (size_t i = 0; i < kHeadDim; ++i) {
        ASSERT_EQ(out[h * kHeadDim + i], values_[0][h / 3 * kHeadDim + i]) << size;
      }
    }
  }
}

TEST_P(ReferenceAttention, NanInAQueryIsQuietNanInItsHeadOnly) {
  FillPages({20});
  std::vector<float> q = RandomFloats(7, 2 * kQueryHeads * kHeadDim);
  const std::vector<float> good = Attend(q, {0, 0}, {19, 19, 20, 20});
  q[2 * kHeadDim + 3] = std::nanf("");
  const std::vector<float> out = Attend(q, {0, 0}, {19, 19, 20, 20});
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(FloatBits(out[i]), i / kHeadDim == 2 ? 0x7fc00000u : FloatBits(good[i])) << i;
  }
}

TEST_P(ReferenceAttention, RefusesRowsThatSeeNothingOrMoreThanTheTableHolds) {
  FillPages({5});
  const std::vector<float> q(kQueryHeads * kHeadDim, 1.0f);
  EXPECT_DEATH(Attend(q, {0}, {0, 1}), "check failed");
  EXPECT_DEATH(Attend(q, {0}, {1, kMaxPages * 16 + 1}), "check failed");
  EXPECT_DEATH(Attend(q, {1}, {1, 1}), "check failed");
}

INSTANTIATE_TEST_SUITE_P(Types, ReferenceAttention, testing::Values(DType::kBF16, DType::kF32),
                         [](const auto& dtype) { return std::string(Name(dtype.param)); });

}  // namespace
}  // namespace winnow
