// Attention mass of the CPU backend against the reference, integer by integer.
#include <gtest/gtest.h>

#include <limits>

#include "tests/compute/attention_cache.h"
#include "tests/compute/cpu_backends.h"

namespace winnow {
namespace {

class CpuAttentionMass : public CpuTest {
 protected:
  // Outputs and mass of `observe` rows on both backends, and outputs without observing.
  void ExpectSame(const AttentionCase& c, const std::vector<int32_t>& observe) {
    DeviceTensors cpu_tensors(*cpu_), reference_tensors(*reference_);
    AttentionCache cpu(*cpu_, cpu_tensors, c), reference(*reference_, reference_tensors, c);
    const AttentionStep step = AllRows(c);
    const std::vector<float> out = cpu.Attend(step, 0, observe);
    ExpectSameFloats(out, reference.Attend(step, 0, observe));
    ASSERT_EQ(cpu.Mass(), reference.Mass());
    ExpectSameFloats(cpu.Attend(step), out);
    ASSERT_EQ(cpu.Mass(), reference.Mass());
  }
  static std::vector<int32_t> AllOf(const AttentionCase& c) {
    return std::vector<int32_t>(AllRows(c).sequence.size(), 1);
  }
  // About a third of the rows, alone and in runs.
  static std::vector<int32_t> SomeOf(const AttentionCase& c) {
    std::vector<int32_t> observe = AllOf(c);
    for (size_t i = 0; i < observe.size(); ++i) observe[i] = RandomBits(9, int64_t(i)) % 3 == 0 ? 7 : 0;
    return observe;
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, CpuAttentionMass, testing::ValuesIn(CpuVariants()), VariantName);

const std::vector<int64_t> kEdges = {1, 15, 16, 17, 127, 128, 129, 300};

TEST_P(CpuAttentionMass, OfDecodeIsThatOfTheReferenceAtEveryEdge) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int64_t group : {1, 3, 4, 7, 20}) {
      SCOPED_TRACE(group);
      const AttentionCase c = {{32, dtype}, 2, group, kEdges, std::vector<int64_t>(kEdges.size(), 1), 0, 2};
      ExpectSame(c, AllOf(c));
      ExpectSame(c, SomeOf(c));
    }
  }
}

// From the first token on, across a block's edge, and one row among the chunks; few tiles and many.
TEST_P(CpuAttentionMass, OfPrefillIsThatOfTheReference) {
  for (int64_t group : {1, 3, 4, 7, 17}) {
    SCOPED_TRACE(group);
    const AttentionCase c = {{32, DType::kBF16}, 2, group, {20, 140, 33, 17}, {20, 30, 1, 9}, 0, 2};
    ExpectSame(c, AllOf(c));
    ExpectSame(c, SomeOf(c));
    ExpectSame(c, std::vector<int32_t>(60, 0));
  }
  const AttentionCase long_chunk = {{64, DType::kBF16}, 3, 3, {300}, {300}, 0, 2};
  ExpectSame(long_chunk, AllOf(long_chunk));
}

// Few tiles of so many blocks that the threads share the adding too; with a tile of its own or two for a head.
TEST_P(CpuAttentionMass, OfLongSequencesIsThatOfTheReference) {
  for (int64_t group : {1, 15}) {
    const AttentionCase c = {{16, DType::kBF16}, 1, group, {13000, 26000}, {1, 1}, 0, 2};
    ExpectSame(c, AllOf(c));
  }
}

TEST_P(CpuAttentionMass, TakesEveryHeadDimension) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int64_t head_dim = 32; head_dim <= 128; head_dim += 16) {
      SCOPED_TRACE(head_dim);
      for (int64_t group : {1, 3}) {
        const AttentionCase c = {{head_dim, dtype}, 1, group, {50, 140}, {1, 3}};
        ExpectSame(c, AllOf(c));
      }
    }
  }
}

TEST_P(CpuAttentionMass, HeadsMaySeeDifferentNumbersOfSlots) {
  const AttentionCase c = {{32, DType::kBF16}, 3, 3, {290, 300, 270}, {1, 40, 5}, 65, 2};
  ExpectSame(c, AllOf(c));
  ExpectSame(c, SomeOf(c));
}

TEST_P(CpuAttentionMass, OfAChunkIsThatOfItsRowsOneByOneInAnyOrder) {
  const AttentionCase c = {{64, DType::kBF16}, 2, 3, {140, 60}, {40, 7}, 11};
  DeviceTensors tensors(*cpu_);
  AttentionCache together(*cpu_, tensors, c), alone(*cpu_, tensors, c);
  const AttentionStep all = AllRows(c);
  const std::vector<int32_t> observe = SomeOf(c);
  together.Attend(all, 0, observe);
  for (size_t r = all.sequence.size(); r-- > 0;) {
    const AttentionStep one = {{all.sequence[r]}, {all.visible[2 * r], all.visible[2 * r + 1]}};
    alone.Attend(one, int64_t(r) * 6 * 64, {observe[r]});
  }
  EXPECT_EQ(together.Mass(), alone.Mass());
}

// Weights that are exact zeros, weights of 1, and scores that overflow.
TEST_P(CpuAttentionMass, IsThatOfTheReferenceForExtremeScores) {
  for (float scale : {1e-20f, 30.0f, 1e18f, 1e19f, 3e19f}) {
    SCOPED_TRACE(scale);
    const AttentionCase c = {{32, DType::kBF16}, 2, 3, {129, 300}, {5, 1}, 0, scale};
    ExpectSame(c, AllOf(c));
  }
}

TEST_P(CpuAttentionMass, OfQueriesWithNaNScoresIsNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  // Slot 135 of 140: rows with fewer than 136 visible slots stay clean.
  for (float value : {nan, infinity, -infinity}) {
    const AttentionCase c = {{32, DType::kF32}, 1, 3, {140}, {12}, 0, 1, {{135 * 32 + 7, value}}};
    ExpectSame(c, AllOf(c));
  }
  const AttentionCase c = {{32, DType::kF32}, 1, 3, {140}, {5}, 0, 1, {{135 * 32 + 7, nan}}};
  DeviceTensors tensors(*cpu_);
  AttentionCache cache(*cpu_, tensors, c);
  cache.Attend(AllRows(c), 0, AllOf(c));
  for (int64_t j = 0; j < 140; ++j) ASSERT_EQ(cache.Mass()[size_t(cache.PhysicalSlot(0, 0, j))], 0);
}

}  // namespace
}  // namespace winnow
