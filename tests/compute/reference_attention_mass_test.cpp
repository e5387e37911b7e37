// Attention mass of the reference backend against a naive softmax in double, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compute/weight_blocks.h"
#include "tests/compute/attention_cache.h"

namespace winnow {
namespace {

constexpr double kSteps = 0x1p30;

class ReferenceAttentionMass : public testing::TestWithParam<DType> {
 protected:
  // Softmax weights of one query over its visible slots.
  std::vector<double> Naive(const AttentionCache& cache, const AttentionCase& c, const float* q, int64_t sequence,
                            int64_t kv_head, int64_t visible) const {
    std::vector<double> weights;
    double top = -1e300, total = 0;
    for (int64_t j = 0; j < visible; ++j) {
      const float* key = cache.Key(sequence, kv_head, j);
      double score = 0;
      for (int64_t i = 0; i < c.kv.head_dim; ++i) {
        const float k = c.kv.dtype == DType::kF32 ? key[i] : BFloat16ToFloat(FloatToBFloat16(key[i]));
        score += double(q[i]) * double(k);
      }
      weights.push_back(score);
      top = std::max(top, score);
    }
    for (double& w : weights) total += w = std::exp(w - top);
    for (double& w : weights) w /= total;
    return weights;
  }

  std::unique_ptr<Backend> backend_ = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  DeviceTensors tensors_{*backend_};
};

// Sums over rows and query heads. A step is 2^-30, finer than the float scores and weights, whose errors are relative.
TEST_P(ReferenceAttentionMass, AgreesWithANaiveSoftmaxAndLeavesOtherSlots) {
  for (int64_t group : {1, 3}) {
    const AttentionCase c = {{32, GetParam()}, 2, group, {20, 129, 300}, {3, 5, 1}, 7};
    AttentionCache cache(*backend_, tensors_, c);
    const AttentionStep step = AllRows(c);
    const std::vector<int32_t> observe = {1, 0, 1, -5, 1, 0, 0, 1, 1};
    const std::vector<float> q = cache.Queries(step);
    std::vector<double> expected(cache.Mass().size(), -1);
    for (int64_t s = 0; s < 3; ++s) {
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t j = 0; j < c.lengths[size_t(s)] - 7 * h; ++j) expected[size_t(cache.PhysicalSlot(s, h, j))] = 0;
      }
    }
    for (size_t r = 0; r < observe.size(); ++r) {
      if (observe[r] == 0) continue;
      for (int64_t head = 0; head < 2 * group; ++head) {
        const int64_t h = head / group;
        const std::vector<double> weights = Naive(cache, c, &q[(r * 2 * size_t(group) + size_t(head)) * 32],
                                                  step.sequence[r], h, step.visible[2 * r + size_t(h)]);
        for (size_t j = 0; j < weights.size(); ++j) {
          expected[size_t(cache.PhysicalSlot(step.sequence[r], h, int64_t(j)))] += kSteps * weights[j];
        }
      }
    }
    cache.Attend(step, 0, observe);
    const std::vector<int64_t> mass = cache.Mass();
    for (size_t i = 0; i < mass.size(); ++i) {
      ASSERT_NEAR(double(mass[i]), expected[i], 5e-6 * std::fabs(expected[i]) + double(group) * 5) << i;
    }
  }
}

// Weights that float holds exactly: 2^-8 each.
TEST_P(ReferenceAttentionMass, IsExactWhereTheWeightsAre) {
  const AttentionCase c = {{32, GetParam()}, 1, 3, {256}, {1}, 0, 0};
  AttentionCache cache(*backend_, tensors_, c);
  cache.Attend(AllRows(c), 0, {1});
  cache.Attend(AllRows(c), 0, {1});
  const std::vector<int64_t> mass = cache.Mass();
  for (int64_t j = 0; j < 256; ++j) ASSERT_EQ(mass[size_t(cache.PhysicalSlot(0, 0, j))], 2 * 3 * (int64_t(1) << 22));
}

TEST_P(ReferenceAttentionMass, OfAQueryAddsUpToOne) {
  for (int64_t length : {1, 2, 16, 127, 128, 129, 300}) {
    for (float scale : {0.5f, 3.0f, 30.0f}) {
      const AttentionCase c = {{32, GetParam()}, 1, 1, {length}, {1}, 0, scale};
      AttentionCache cache(*backend_, tensors_, c);
      cache.Attend(AllRows(c), 0, {1});
      const std::vector<int64_t> mass = cache.Mass();
      int64_t sum = 0;
      for (int64_t j = 0; j < length; ++j) sum += mass[size_t(cache.PhysicalSlot(0, 0, j))];
      EXPECT_NEAR(double(sum), kSteps, kSteps * 5e-7 + double(length)) << length << " slots, scale " << scale;
    }
  }
}

// A key of 3e38 makes a score of +inf or -inf, depending on the query: NaN and +inf void a query's mass, -inf is a
// weight of 0. Other query heads and rows are as ever.
TEST_P(ReferenceAttentionMass, OfAQueryWithNaNOrOnlyInfiniteScoresIsNothing) {
  for (float value : {std::numeric_limits<float>::quiet_NaN(), 3e38f, -3e38f}) {
    const AttentionCase c = {{32, GetParam()}, 1, 2, {20}, {2}, 0, 100, {{19 * 32 + 7, value}}};
    AttentionCache cache(*backend_, tensors_, c);
    const AttentionStep step = AllRows(c);  // row 0 does not see slot 19
    const AttentionStep second = {{0}, {20}};
    int64_t num_clean = 0;
    for (int64_t h = 0; h < 2; ++h) {
      num_clean += !std::isnan(value) && cache.Queries(second)[size_t(h * 32 + 7)] * value < 0;
    }
    cache.Attend(second, 0, {1});
    std::vector<int64_t> mass = cache.Mass();
    double sum = 0;
    for (int64_t j = 0; j < 20; ++j) sum += double(mass[size_t(cache.PhysicalSlot(0, 0, j))]);
    EXPECT_NEAR(sum, kSteps * double(num_clean), kSteps * 1e-6);
    cache.Attend(step, 0, {1, 0});
    mass = cache.Mass();
    for (int64_t j = 0; j < 19; ++j) sum -= double(mass[size_t(cache.PhysicalSlot(0, 0, j))]);
    EXPECT_NEAR(sum, -2 * kSteps, kSteps * 1e-6);
  }
}

TEST_P(ReferenceAttentionMass, IsRefusedWithoutRowsToObserveOrInAnotherShape) {
  const KvLayout kv{32, GetParam()};
  const Tensor pages = tensors_.Empty(DType::kF32, {2 * kv.page_bytes() / 4});
  const Tensor q = tensors_.Empty(DType::kF32, {1, 1, 32}), table = tensors_.Ints({1, 1, 1}, {0});
  const Tensor sequence = tensors_.Ints({1}, {0}), visible = tensors_.Ints({1, 1}, {1});
  const Tensor one = tensors_.Ints({1}, {1}), two = tensors_.Ints({2}, {1, 1});
  const Tensor mass = tensors_.Empty(DType::kI64, {2, 16}), short_mass = mass.Rows(0, 1);
  const AttentionArgs args = {q, q, table, sequence, visible, pages, kv};
  const auto attend = [&](const Tensor& observe, const Tensor& to) {
    AttentionArgs with = args;
    with.observe = observe, with.mass = to;
    backend_->Attention(with);
  };
  attend(one, mass);
  EXPECT_DEATH(attend(one, {}), "check failed");
  EXPECT_DEATH(attend({}, mass), "check failed");
  EXPECT_DEATH(attend(two, mass), "check failed");
  EXPECT_DEATH(attend(one, short_mass), "check failed");
  const Tensor slots = tensors_.Ints({1, 1}, {0}), cos_sin = tensors_.Empty(DType::kF32, {1, 32});
  EXPECT_DEATH(backend_->RopeAppend({q, q, q, cos_sin, slots, pages, kv, 1.0f, short_mass}), "check failed");
  EXPECT_DEATH(backend_->Compact({tensors_.Ints({1, 2}, {0, 1}), pages, kv, short_mass}), "check failed");
}

INSTANTIATE_TEST_SUITE_P(Types, ReferenceAttentionMass, testing::Values(DType::kBF16, DType::kF32),
                         [](const auto& dtype) { return std::string(Name(dtype.param)); });

}  // namespace
}  // namespace winnow
