// Compacted positions against the NumPy oracle: the keys that an eviction of StreamingLLM leaves, turned to the index
// of their slots, and what turning them again and again costs in a bf16 cache.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/evictor.h"
#include "model/rotary.h"
#include "tests/policies/golden_case.h"

namespace winnow {
namespace {

class CompactedGolden : public testing::TestWithParam<std::tuple<const char*, DType>> {
 protected:
  const GoldenCase golden_{std::get<0>(GetParam())};
  const DType dtype_ = std::get<1>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Cases, CompactedGolden,
                         testing::Combine(testing::Values("policies_gqa2", "policies_gqa3"),
                                          testing::Values(DType::kBF16, DType::kF32)));

TEST_P(CompactedGolden, KeysOfSurvivorsAreRotatedByTheirSlots) {
  const nlohmann::json& result = golden_.Result("streaming-llm-compacted", "prefill");
  const int64_t layers = golden_.Size("layers"), heads = golden_.Size("kv_heads"), dim = golden_.Size("head_dim");
  const int64_t tokens = golden_.Size("tokens"), slots = result.at("slots"), budget = result.at("budget");
  Request request;
  request.prompt.assign(size_t(slots), 1);
  request.eviction = ResolveEviction({.policy = "streaming-llm-compacted",
                                      .budget = budget,
                                      .interval = slots - budget,
                                      .sink_tokens = result.at("sinks"),
                                      .recent_tokens = 0},
                                     {.prompt_tokens = slots})
                         .value();
  const auto backend = MakeCpuBackend(1).value();
  const auto pool = PagePool::Make(*backend, {.head_dim = dim, .dtype = dtype_}, 128).value();
  const RotaryTable rotary(golden_.Number("rope_theta"), dim);
  SequenceCache cache(*pool, layers, heads, 0);
  cache.CompactPositions(rotary.frequencies());
  ASSERT_TRUE(cache.Reserve(slots).ok());
  cache.Append(slots);
  // Until the first eviction slots and positions are the same, so the oracle's keys are what the cache would hold.
  const std::vector<float> k = golden_.Floats("k"), v = golden_.Floats("v");
  for (int64_t layer = 0; layer < layers; ++layer) {
    for (int64_t head = 0; head < heads; ++head) {
      std::vector<int32_t> physical;
      for (int64_t slot = 0; slot < slots; ++slot) physical.push_back(cache.head(layer, head).PhysicalSlot(slot));
      const size_t first = size_t((layer * heads + head) * tokens * dim), count = size_t(slots * dim);
      pool->WriteSlots(physical, std::span(k).subspan(first, count), std::span(v).subspan(first, count));
    }
  }
  const auto policy = MakePolicy(request.eviction.policy).value();
  const DueEviction due{policy.get(), &request, &cache, heads};
  EvictToBudget(*MakeLocalCommunicator(), {&due, 1});

  EXPECT_EQ(cache.next_rotary_position(), budget);
  EXPECT_EQ(cache.next_position(), slots);
  const std::vector<float> expected = golden_.Floats("streaming-llm-compacted/prefill/keys");
  const double tolerance = dtype_ == DType::kBF16 ? 1.0 / 256 : 2e-7;  // half a step of the type
  for (int64_t layer = 0; layer < layers; ++layer) {
    for (int64_t head = 0; head < heads; ++head) {
      EXPECT_EQ(cache.head(layer, head).positions, golden_.Integers("streaming-llm-compacted/prefill/kept"));
      const std::vector<float> keys = cache.ReadKeys(layer, head), values = cache.ReadValues(layer, head);
      const float* want = expected.data() + (layer * heads + head) * budget * dim;
      for (int64_t slot = 0; slot < budget; ++slot) {
        const int32_t position = cache.head(layer, head).positions[size_t(slot)];
        for (int64_t i = 0; i < dim; ++i) {
          const size_t at = size_t(slot * dim + i),
                       original = size_t(((layer * heads + head) * tokens + position) * dim + i);
          ASSERT_NEAR(keys[at], want[at], tolerance * std::fabs(want[at]) + 1e-6) << "slot " << slot << ", " << i;
          ASSERT_EQ(values[at], v[original]);
          if (slot < 4) {
            ASSERT_EQ(keys[at], k[original]) << "a sink was turned";
          }
        }
      }
    }
  }
}

// Each eviction turns the key of a token by -interval and rounds it again: how far it is off when it leaves the cache.
TEST(CompactedKeys, EightTurnsInABf16CacheCostLessThanOnePercentOfTheKey) {
  constexpr int64_t kDim = 64, kSinks = 4, kBudget = 260, kInterval = 32, kTurns = 8;
  const auto backend = MakeCpuBackend(1).value();
  const auto pool = PagePool::Make(*backend, {.head_dim = kDim, .dtype = DType::kBF16}, 32).value();
  RotaryTable rotary(10000.0, kDim);
  SequenceCache cache(*pool, 1, 1, 0);
  cache.CompactPositions(rotary.frequencies());
  ASSERT_TRUE(cache.Reserve(kBudget + kInterval).ok());
  cache.Append(kBudget + kInterval);
  std::vector<float> unrotated, keys;
  for (int64_t slot = 0; slot < cache.head(0, 0).length(); ++slot) {
    const auto cos_sin = rotary.CosSin(slot);
    std::vector<float> x;
    for (int64_t i = 0; i < kDim; ++i) x.push_back(float((slot * 37 + i * 101) % 199) / 100 - 1);
    unrotated.insert(unrotated.end(), x.begin(), x.end());
    for (size_t i = 0; i < kDim / 2; ++i) keys.push_back(x[i] * cos_sin[i] - x[i + kDim / 2] * cos_sin[i + kDim / 2]);
    for (size_t i = 0; i < kDim / 2; ++i) keys.push_back(x[i + kDim / 2] * cos_sin[i] + x[i] * cos_sin[i + kDim / 2]);
  }
  std::vector<int32_t> physical;
  for (int64_t slot = 0; slot < cache.head(0, 0).length(); ++slot) {
    physical.push_back(cache.head(0, 0).PhysicalSlot(slot));
  }
  pool->WriteSlots(physical, keys, keys);
  std::vector<int32_t> kept(kBudget);
  std::iota(kept.begin(), kept.begin() + kSinks, 0);
  std::iota(kept.begin() + kSinks, kept.end(), int32_t(kSinks + kInterval));
  double off[kTurns] = {};
  for (int64_t turn = 0; turn < kTurns; ++turn) {
    if (turn > 0) {
      ASSERT_TRUE(cache.Reserve(kInterval).ok());
      cache.Append(kInterval);
    }
    cache.Compact({.kept = {kept}});
    const std::vector<float> found = cache.ReadKeys(0, 0);
    double squares = 0, errors = 0;
    for (int64_t slot = kSinks; slot < kBudget - turn * kInterval; ++slot) {  // those that were there from the start
      const auto cos_sin = rotary.CosSin(slot);
      const float* x = unrotated.data() + int64_t(cache.head(0, 0).positions[size_t(slot)]) * kDim;
      for (size_t i = 0; i < kDim / 2; ++i) {
        const double c = cos_sin[i], s = cos_sin[i + kDim / 2], a = x[i], b = x[i + kDim / 2];
        const float* key = found.data() + slot * kDim;
        errors += std::pow(key[i] - (a * c - b * s), 2) + std::pow(key[i + kDim / 2] - (b * c + a * s), 2);
        squares += a * a + b * b;
      }
    }
    off[turn] = std::sqrt(errors / squares);
    std::printf("after %d turns: %.4f %% of a key's length\n", int(turn) + 1, 100 * off[turn]);
  }
  EXPECT_GT(off[0], 0.001);
  EXPECT_LT(off[kTurns - 1], 0.01);
  EXPECT_LT(off[kTurns - 1], 4 * off[0]) << "errors add up faster than random ones";
}

}  // namespace
}  // namespace winnow
