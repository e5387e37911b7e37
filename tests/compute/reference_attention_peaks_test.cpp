// Attention peaks of the reference backend against a naive softmax in double, and what is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/weight_blocks.h"
#include "tests/compute/attention_cache.h"

namespace winnow {
namespace {

class ReferenceAttentionPeaks : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  DeviceTensors tensors_{*backend_};
};

TEST_F(ReferenceAttentionPeaks, AreTheLargestWeightOfAnyRowForEveryQueryHead) {
  constexpr int64_t kGroup = 3, kHeads = 2, kDim = 32;
  const AttentionCase c = {{kDim, DType::kBF16}, kHeads, kGroup, {20, 129, 300}, {3, 5, 1}, 7};
  AttentionCache cache(*backend_, tensors_, c);
  const AttentionStep step = AllRows(c);
  const std::vector<float> scale = {1, 2, 0.5f, 0, 1, 1, 3, 1, 0.25f};
  const std::vector<float> q = cache.Queries(step);
  std::vector<double> expected(cache.Peaks().size(), 0.0);
  for (size_t r = 0; r < scale.size(); ++r) {
    for (int64_t head = 0; head < kHeads * kGroup; ++head) {
      std::vector<double> weights;
      double total = 0;
      for (int64_t j = 0; j < step.visible[r * kHeads + size_t(head / kGroup)]; ++j) {
        const float* key = cache.Key(step.sequence[r], head / kGroup, j);
        double score = 0;
        for (int64_t i = 0; i < kDim; ++i) {
          score += double(q[(r * kHeads * kGroup + size_t(head)) * kDim + size_t(i)]) *
                   double(BFloat16ToFloat(FloatToBFloat16(key[i])));
        }
        total += weights.emplace_back(std::exp(score));
      }
      for (size_t j = 0; j < weights.size(); ++j) {
        double& peak = expected[size_t((step.sequence[r] * kHeads * kGroup + head) * cache.peak_slots()) + j];
        peak = std::max(peak, double(scale[r]) * weights[j] / total);
      }
    }
  }
  cache.Attend(step, 0, {}, scale);
  const std::vector<float> peaks = cache.Peaks();
  for (size_t i = 0; i < peaks.size(); ++i) ASSERT_NEAR(peaks[i], expected[i], 5e-6 * expected[i]) << i;
}

TEST_F(ReferenceAttentionPeaks, StayWhereNothingIsLarger) {
  const AttentionCase c = {{32, DType::kF32}, 1, 2, {40}, {4}};
  AttentionCache cache(*backend_, tensors_, c);
  cache.Attend(AllRows(c), 0, {}, {1, 1, 1, 1});
  const std::vector<float> before = cache.Peaks();
  cache.Attend(AllRows(c), 0, {}, {0.5f, 1, 0, 1});
  EXPECT_EQ(cache.Peaks(), before);
}

using ReferenceAttentionPeaksDeathTest = ReferenceAttentionPeaks;

TEST_F(ReferenceAttentionPeaksDeathTest, PeaksThatDoNotFitTheStepEndTheProgram) {
  const KvLayout kv{32, DType::kF32};
  AttentionArgs args = {tensors_.Empty(DType::kF32, {1, 2, 32}),
                        tensors_.Empty(DType::kF32, {1, 2, 32}),
                        tensors_.Ints({1, 1, 2}, {0, 1}),
                        tensors_.Ints({1}, {0}),
                        tensors_.Ints({1, 1}, {20}),
                        tensors_.Empty(DType::kF32, {2 * kv.page_bytes() / 4}),
                        kv};
  args.peaks = tensors_.Empty(DType::kF32, {1, 2, 32});
  EXPECT_DEATH(backend_->Attention(args), "check failed");  // without a scale
  args.peak_scale = tensors_.Floats({1}, {1});
  backend_->Attention(args);
  args.peaks = tensors_.Empty(DType::kF32, {1, 2, 16});  // fewer slots than two pages
  EXPECT_DEATH(backend_->Attention(args), "check failed");
  args.peaks = tensors_.Empty(DType::kF32, {1, 1, 32});  // fewer query heads
  EXPECT_DEATH(backend_->Attention(args), "check failed");
}

}  // namespace
}  // namespace winnow
