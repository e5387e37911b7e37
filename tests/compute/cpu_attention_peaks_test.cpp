// Attention peaks of the CPU backend against the reference, bit by bit.
#include <gtest/gtest.h>

#include <limits>

#include "tests/compute/attention_cache.h"
#include "tests/compute/cpu_backends.h"

namespace winnow {
namespace {

class CpuAttentionPeaks : public CpuTest {
 protected:
  // Outputs and peaks on both backends, with and without mass beside them, and outputs without either.
  void ExpectSame(const AttentionCase& c) {
    DeviceTensors cpu_tensors(*cpu_), reference_tensors(*reference_);
    AttentionCache cpu(*cpu_, cpu_tensors, c), reference(*reference_, reference_tensors, c);
    const AttentionStep step = AllRows(c);
    const std::vector<float> scale = Scale(step);
    const std::vector<float> out = cpu.Attend(step, 0, {}, scale);
    ExpectSameFloats(out, reference.Attend(step, 0, {}, scale));
    ExpectSameFloats(cpu.Peaks(), reference.Peaks());
    // Another step of other queries raises what they see more.
    std::vector<int32_t> observe(step.sequence.size(), 0);
    observe.back() = 1;
    ExpectSameFloats(cpu.Attend(step, 999, observe, scale), reference.Attend(step, 999, observe, scale));
    ExpectSameFloats(cpu.Peaks(), reference.Peaks());
    ASSERT_EQ(cpu.Mass(), reference.Mass());
    ExpectSameFloats(cpu.Attend(step), out);
    ExpectSameFloats(cpu.Peaks(), reference.Peaks());
  }
  // Rows count differently, some not at all.
  static std::vector<float> Scale(const AttentionStep& step) {
    std::vector<float> scale = RandomFloats(8, int64_t(step.sequence.size()), 3);
    for (float& value : scale) value = value < 0 ? 0 : value;
    scale[0] = 1;
    return scale;
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, CpuAttentionPeaks, testing::ValuesIn(CpuVariants()), VariantName);

TEST_P(CpuAttentionPeaks, OfDecodeAreThoseOfTheReferenceAtEveryEdge) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int64_t group : {1, 3, 20}) {
      SCOPED_TRACE(group);
      ExpectSame({{32, dtype}, 2, group, {1, 15, 16, 17, 127, 128, 129, 300}, std::vector<int64_t>(8, 1), 0, 2});
    }
  }
}

// From the first token on, across a block's edge, and one row among the chunks; few tiles and many.
TEST_P(CpuAttentionPeaks, OfPrefillAreThoseOfTheReference) {
  for (int64_t group : {1, 4, 17}) {
    SCOPED_TRACE(group);
    ExpectSame({{32, DType::kBF16}, 2, group, {20, 140, 33, 17}, {20, 30, 1, 9}, 0, 2});
  }
  ExpectSame({{64, DType::kBF16}, 3, 3, {300}, {200}, 0, 2});
}

// Few tiles of so many blocks that the threads share them; more slots in some heads than in others.
TEST_P(CpuAttentionPeaks, OfLongAndUnevenSequencesAreThoseOfTheReference) {
  ExpectSame({{16, DType::kBF16}, 1, 13, {20000}, {1}, 0, 2});
  ExpectSame({{32, DType::kBF16}, 3, 3, {290, 300, 270}, {1, 40, 5}, 65, 2});
}

TEST_P(CpuAttentionPeaks, AreThoseOfTheReferenceForExtremeScores) {
  for (float scale : {1e-20f, 1e18f, 3e19f}) {
    SCOPED_TRACE(scale);
    ExpectSame({{32, DType::kBF16}, 2, 3, {129, 300}, {5, 1}, 0, scale});
  }
}

TEST_P(CpuAttentionPeaks, OfQueriesWithNaNScoresAreNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  // Slot 135 of 140: rows with fewer than 136 visible slots stay clean.
  for (float value : {nan, infinity, -infinity}) {
    ExpectSame({{32, DType::kF32}, 1, 3, {140}, {12}, 0, 1, {{135 * 32 + 7, value}}});
  }
  const AttentionCase c = {{32, DType::kF32}, 1, 3, {140}, {5}, 0, 1, {{135 * 32 + 7, nan}}};
  DeviceTensors tensors(*cpu_);
  AttentionCache cache(*cpu_, tensors, c);
  cache.Attend(AllRows(c), 0, {}, std::vector<float>(5, 1.0f));
  for (float peak : cache.Peaks()) ASSERT_EQ(peak, 0);
}

}  // namespace
}  // namespace winnow
