// One head as policies see it, with everything that any of them observes: pseudo-random numbers with many ties, the
// same in every run.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "base/philox.h"
#include "kv/keep_plan.h"
#include "policies/eviction_policy.h"

namespace winnow {

inline constexpr Protection kProtection{.sink_tokens = 4, .recent_tokens = 32};

inline std::vector<int32_t> Positions(int64_t length) {
  std::vector<int32_t> positions(static_cast<size_t>(length));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

// A mass a slot, for policies that observe: pseudo-random and with many ties.
inline std::span<const int64_t> MassOf(size_t length) {
  static const std::vector<int64_t> kMass = [] {
    std::vector<int64_t> mass;
    for (uint32_t i = 0; i < 4096; ++i) mass.push_back(int64_t(Philox(3, {i, 0, 0, 0})[0] % 97) << 20);
    return mass;
  }();
  return std::span(kMass).first(length);
}

// A key a slot, likewise.
inline constexpr int64_t kHeadDim = 16;
inline std::span<const float> KeysOf(size_t length) {
  static const std::vector<float> kKeys = [] {
    std::vector<float> keys;
    for (uint32_t i = 0; i < 4096 * kHeadDim; ++i) keys.push_back(float(Philox(4, {i, 0, 0, 0})[0] % 7) - 3);
    return keys;
  }();
  return std::span(kKeys).first(length * kHeadDim);
}

// What the future pays to each slot, likewise.
inline std::span<const float> FutureOf(size_t length) {
  static const std::vector<float> kFuture = [] {
    std::vector<float> future;
    for (uint32_t i = 0; i < 4096; ++i) future.push_back(float(Philox(6, {i, 0, 0, 0})[0] % 97) / 97);
    return future;
  }();
  return std::span(kFuture).first(length);
}

// How much a replay looks at each slot, likewise.
inline std::span<const float> ReplayOf(size_t length) {
  static const std::vector<float> kReplay = [] {
    std::vector<float> replay;
    for (uint32_t i = 0; i < 4096; ++i) replay.push_back(float(Philox(7, {i, 0, 0, 0})[0] % 89) / 89);
    return replay;
  }();
  return std::span(kReplay).first(length);
}

// Queries of an observation window of 8 tokens, 3 heads to a group.
inline constexpr int64_t kGroup = 3;
inline std::span<const float> WindowQueries() {
  static const std::vector<float> kQueries = [] {
    std::vector<float> queries;
    for (uint32_t i = 0; i < 8 * kGroup * kHeadDim; ++i) queries.push_back(float(Philox(5, {i, 0, 0, 0})[0] % 9) / 8);
    return queries;
  }();
  return kQueries;
}

inline std::span<const int64_t> WindowPositions() {
  static const std::vector<int64_t> kPositions = {92, 93, 94, 95, 96, 97, 98, 99};
  return kPositions;
}

// Values and rotary frequencies need to tell nothing apart here.
inline std::span<const double> Frequencies() {
  static const std::vector<double> kFrequencies = {1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003};
  return kFrequencies;
}

inline HeadView ViewOf(const std::vector<int32_t>& positions) {
  return {.layer = 0,
          .global_head = 0,
          .positions = positions,
          .mass = MassOf(positions.size()),
          .keys = KeysOf(positions.size()),
          .head_dim = kHeadDim,
          .queries = WindowQueries(),
          .query_positions = WindowPositions(),
          .group = kGroup,
          .values = KeysOf(positions.size()),
          .rotary_frequencies = Frequencies(),
          .future = FutureOf(positions.size()),
          .replay = ReplayOf(positions.size()),
          .window_begin = RecentBegin(positions, {.recent_tokens = 8, .pinned_positions = {}}),
          .recent_begin = RecentBegin(positions, kProtection),
          .tokens_seen = positions.empty() ? 0 : positions.back() + 1,
          .prompt_tokens = 10,
          .eviction_index = 0,
          .seed = 1,
          .choice_index = 0};
}

inline std::vector<float> Scores(const EvictionPolicy& policy, const HeadView& view) {
  std::vector<float> scores(view.positions.size());
  policy.Score(view, scores);
  return scores;
}

inline std::vector<int32_t> Kept(const EvictionPolicy& policy, const HeadView& view, int64_t budget,
                                 const Protection& protection = kProtection) {
  return SelectKept(view.positions, Scores(policy, view), budget, protection);
}

}  // namespace winnow
