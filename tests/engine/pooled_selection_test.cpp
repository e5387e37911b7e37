#include "engine/pooled_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "base/hash.h"
#include "dist/shard.h"

namespace winnow {
namespace {

// Heads of all ranks, before they are dealt out; [layer * kv_heads + head].
struct Whole {
  int64_t layers, kv_heads;
  std::vector<std::vector<int32_t>> positions;
  std::vector<std::vector<float>> scores;
  std::vector<std::vector<uint8_t>> is_protected;
  int64_t floor = 0, candidates_kept = 0;

  int64_t num_heads() const { return layers * kv_heads; }
};

// Heads of different length; `distinct` different scores, so that few mean many ties.
Whole RandomWhole(uint64_t seed, int64_t layers, int64_t kv_heads, uint64_t distinct, int64_t candidates_kept,
                  int64_t floor) {
  Whole whole{layers, kv_heads, {}, {}, {}, floor, candidates_kept};
  for (int64_t h = 0; h < whole.num_heads(); ++h) {
    whole.positions.emplace_back();
    whole.scores.emplace_back();
    whole.is_protected.emplace_back();
    for (int32_t position = 0; position < 40; ++position) {
      const uint64_t random = HashWords({seed, uint64_t(h), uint64_t(position)});
      const bool is_protected = position < 2 || position >= 36;
      if (!is_protected && random % 3 == 0) continue;
      whole.positions.back().push_back(position);
      whole.scores.back().push_back(float(int64_t(random >> 8) % int64_t(distinct)) - 1.5f);
      whole.is_protected.back().push_back(is_protected);
    }
  }
  return whole;
}

// By sorting all candidates: floors, then the best by score, higher position, lower layer, lower head.
std::vector<std::vector<int32_t>> Naive(const Whole& whole) {
  struct Candidate {
    size_t head, slot;
  };
  const auto goes_first = [&](const Candidate& a, const Candidate& b) {
    const float score_a = whole.scores[a.head][a.slot], score_b = whole.scores[b.head][b.slot];
    if (score_a != score_b) return score_a > score_b;
    const int32_t at_a = whole.positions[a.head][a.slot], at_b = whole.positions[b.head][b.slot];
    return at_a != at_b ? at_a > at_b : a.head < b.head;
  };
  std::vector<std::vector<uint8_t>> is_kept = whole.is_protected;
  std::vector<Candidate> rest;
  int64_t left = whole.candidates_kept;
  for (size_t head = 0; head < whole.scores.size(); ++head) {
    std::vector<Candidate> own;
    for (size_t slot = 0; slot < whole.scores[head].size(); ++slot) {
      if (!whole.is_protected[head][slot]) own.push_back({head, slot});
    }
    std::sort(own.begin(), own.end(), goes_first);
    const size_t floor = std::min(own.size(), size_t(whole.floor));
    for (size_t i = 0; i < floor; ++i) is_kept[head][own[i].slot] = 1;
    left -= int64_t(floor);
    rest.insert(rest.end(), own.begin() + int64_t(floor), own.end());
  }
  std::sort(rest.begin(), rest.end(), goes_first);
  for (size_t i = 0; i < rest.size() && int64_t(i) < left; ++i) is_kept[rest[i].head][rest[i].slot] = 1;
  std::vector<std::vector<int32_t>> kept;
  for (const auto& flags : is_kept) {
    kept.emplace_back();
    for (size_t slot = 0; slot < flags.size(); ++slot) {
      if (flags[slot]) kept.back().push_back(int32_t(slot));
    }
  }
  return kept;
}

// Several pools at once, heads dealt over ranks as shards are: consecutive heads of every layer.
std::vector<std::vector<std::vector<int32_t>>> OnRanks(int num_ranks, const std::vector<Whole>& wholes) {
  std::vector<std::vector<std::vector<int32_t>>> kept;
  for (const Whole& whole : wholes) kept.emplace_back(size_t(whole.num_heads()));
  std::mutex mutex;  // guards kept
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    std::vector<Pool> pools;
    std::vector<std::vector<size_t>> own;  // [pool] indices of this rank's heads
    for (const Whole& whole : wholes) {
      Pool& pool = pools.emplace_back();
      pool.num_kv_heads = whole.kv_heads;
      pool.candidates_kept = whole.candidates_kept;
      own.emplace_back();
      const int64_t begin = whole.kv_heads * communicator.rank() / num_ranks;
      const int64_t end = whole.kv_heads * (communicator.rank() + 1) / num_ranks;
      for (int64_t layer = 0; layer < whole.layers; ++layer) {
        for (int64_t head = begin; head < end; ++head) {
          const size_t at = size_t(layer * whole.kv_heads + head);
          own.back().push_back(at);
          pool.heads.push_back({.layer = layer,
                                .global_head = head,
                                .positions = whole.positions[at],
                                .scores = whole.scores[at],
                                .is_protected = whole.is_protected[at],
                                .floor = whole.floor});
        }
      }
    }
    const auto mine = SelectPooled(communicator, pools);
    const std::lock_guard lock(mutex);
    for (size_t p = 0; p < mine.size(); ++p) {
      for (size_t i = 0; i < mine[p].size(); ++i) kept[p][own[p][i]] = mine[p][i];
    }
  });
  return kept;
}

TEST(SelectPooled, KeepsWhatASortOverAllHeadsKeepsOnAnyNumberOfRanks) {
  for (uint64_t distinct : {1, 3, 1000}) {
    for (int64_t candidates_kept : {0, 1, 17, 60, 100000}) {
      for (int64_t floor : {0, 2}) {
        if (floor * 6 > candidates_kept) continue;
        const std::vector<Whole> wholes = {RandomWhole(distinct, 2, 3, distinct, candidates_kept, floor),
                                           RandomWhole(distinct + 1, 1, 5, distinct, candidates_kept, floor)};
        for (int num_ranks : {1, 2, 3}) {
          const auto kept = OnRanks(num_ranks, wholes);
          for (size_t p = 0; p < wholes.size(); ++p) {
            EXPECT_EQ(kept[p], Naive(wholes[p]))
                << num_ranks << " ranks, pool " << p << ", " << distinct << " scores, " << candidates_kept << " kept";
          }
        }
      }
    }
  }
}

TEST(SelectPooled, TheBudgetIsMetExactlyOverAllHeads) {
  const Whole whole = RandomWhole(5, 3, 3, 4, 101, 3);
  int64_t kept = 0, protected_slots = 0;
  const auto on_ranks = OnRanks(2, {whole});
  for (const auto& slots : on_ranks[0]) kept += int64_t(slots.size());
  for (const auto& flags : whole.is_protected) protected_slots += std::count(flags.begin(), flags.end(), 1);
  EXPECT_EQ(kept - protected_slots, 101);
}

TEST(SelectPooled, EveryHeadKeepsItsFloorHoweverLowItsScoresAre) {
  Whole whole = RandomWhole(9, 1, 3, 50, 30, 4);
  for (float& score : whole.scores[1]) score -= 1000;
  const auto kept = OnRanks(3, {whole});
  const int64_t protected_slots = std::count(whole.is_protected[1].begin(), whole.is_protected[1].end(), 1);
  EXPECT_EQ(int64_t(kept[0][1].size()), protected_slots + 4);
}

}  // namespace
}  // namespace winnow
