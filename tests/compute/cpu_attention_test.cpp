// Attention of the CPU backend against the reference, by bits.
#include <gtest/gtest.h>

#include <limits>

#include "tests/compute/attention_cache.h"
#include "tests/compute/cpu_backends.h"

namespace winnow {
namespace {

class CpuAttention : public CpuTest {};
INSTANTIATE_TEST_SUITE_P(Kernels, CpuAttention, testing::ValuesIn(CpuVariants()), VariantName);

void ExpectSame(Backend& cpu, Backend& reference, const AttentionCase& c) {
  DeviceTensors cpu_tensors(cpu), reference_tensors(reference);
  const AttentionStep step = AllRows(c);
  ExpectSameFloats(AttentionCache(cpu, cpu_tensors, c).Attend(step),
                   AttentionCache(reference, reference_tensors, c).Attend(step));
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

// Enough of them for every thread, but one thread would have the long one alone: it is dealt by blocks, too.
TEST_P(CpuAttention, OneLongTextAmongManyShortOnesHasTheBitsOfTheReference) {
  std::vector<int64_t> lengths(19, 20);
  lengths[11] = 1500;
  ExpectSame(*cpu_, *reference_, {{32, DType::kBF16}, 2, 3, lengths, std::vector<int64_t>(lengths.size(), 1)});
}

TEST_P(CpuAttention, ARowHasTheSameBitsAloneAndInAChunk) {
  const AttentionCase c = {{64, DType::kBF16}, 2, 3, {140, 60}, {40, 7}, 11};
  DeviceTensors tensors(*cpu_);
  AttentionCache cache(*cpu_, tensors, c);
  const AttentionStep all = AllRows(c);
  const std::vector<float> together = cache.Attend(all);
  const int64_t row_floats = 6 * 64;
  for (size_t r = 0; r < all.sequence.size(); ++r) {
    const AttentionStep one = {{all.sequence[r]}, {all.visible[2 * r], all.visible[2 * r + 1]}};
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
    const AttentionCase c = {{32, DType::kF32}, 1, 3, {140}, {12}, 0, 1, {{135 * 32 + 7, value}}};
    ExpectSame(*cpu_, *reference_, c);
    DeviceTensors tensors(*cpu_);
    const std::vector<float> out = AttentionCache(*cpu_, tensors, c).Attend(AllRows(c));
    for (size_t i = 0; i < 7 * 3 * 32; ++i) ASSERT_FALSE(std::isnan(out[i]));
    if (std::isnan(value)) {
      for (size_t i = 7 * 3 * 32; i < out.size(); ++i) ASSERT_EQ(FloatBits(out[i]), 0x7fc00000u);
    }
  }
}

}  // namespace
}  // namespace winnow
