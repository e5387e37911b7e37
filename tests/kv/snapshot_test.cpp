// What a cache is made of comes back, on whatever split of the heads, and no snapshot that is none gets that far.
#include "kv/snapshot.h"

#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <limits>

#include "tests/kv/kv_test_support.h"

namespace winnow {
namespace {

using testing::HasSubstr;

constexpr int64_t kLayers = 2, kHeads = 3, kHeadDim = 32;

class SnapshotTest : public testing::TestWithParam<DType> {
 protected:
  KvLayout layout() const { return {kHeadDim, GetParam()}; }
  std::unique_ptr<PagePool> Pool(int64_t num_pages = 200) {
    return PagePool::Make(*backend_, layout(), num_pages, /*with_mass=*/true).value();
  }

  // Heads [first, first + count) of a cache that saw 70 tokens, 4 pinned slots and two evictions, with slots that can
  // be recognised by layer, head and position.
  SequenceCache Cache(PagePool& pool, int64_t first, int64_t count) const {
    SequenceCache cache(pool, kLayers, count, first);
    EXPECT_TRUE(cache.Restore(Whole()).ok());
    return cache;
  }

  SequenceSnapshot Whole() const {
    SequenceSnapshot whole{.dtype = GetParam(),
                           .head_dim = kHeadDim,
                           .num_layers = kLayers,
                           .num_kv_heads = kHeads,
                           .first_kv_head = 0,
                           .heads = {},
                           .pinned_positions = {20, 21, 22, 40},
                           .tokens_seen = 70,
                           .evictions = 2,
                           .query_rows = 3,
                           .query_group = 2};
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (int64_t h = 0; h < kHeads; ++h) {
        HeadSnapshot& head = whole.heads.emplace_back();
        // Ragged lengths.
        for (int32_t position = 0; position < 74; ++position) {
          const bool is_pinned = std::ranges::count(whole.pinned_positions, position) > 0;
          if (is_pinned || HashWords({uint64_t(layer), uint64_t(h), uint64_t(position)}) % 3 != 0) {
            head.positions.push_back(position);
          }
        }
        for (int64_t i = 0; i < 3 * 2 * kHeadDim; ++i) head.queries.push_back(float(1000 * layer + 300 * h + i) / 7);
        const size_t element = size_t(BlockBytes(GetParam()));
        for (int32_t position : head.positions) {
          head.mass.push_back(int64_t(position) << 30 | layer << 8 | h);
          for (int64_t i = 0; i < 2 * kHeadDim; ++i) {
            // A few bits, so that bf16 holds them.
            const float value = float((position + i) % 64) + float(h) / 4 - float(64 * layer);
            auto& to = i < kHeadDim ? head.keys : head.values;
            const auto* bytes = reinterpret_cast<const uint8_t*>(&value) + (sizeof(float) - element);
            to.insert(to.end(), bytes, bytes + element);
          }
        }
      }
    }
    return whole;
  }

  std::unique_ptr<Backend> backend_ = MakeGuardBackend(MakeReferenceBackend(ReferenceArithmetic::kQuantised));
};

TEST_P(SnapshotTest, ComesBackFromACacheOfAllHeads) {
  const auto pool = Pool();
  const SequenceCache cache = Cache(*pool, 0, kHeads);
  const SequenceSnapshot whole = Whole();
  EXPECT_EQ(cache.TakeSnapshot(/*with_mass=*/true), whole);
  EXPECT_EQ(cache.tokens_seen(), 70);
  EXPECT_EQ(cache.next_position(), 74);
  EXPECT_EQ(cache.evictions(), 2);
  int64_t entries = 0;
  for (const HeadSnapshot& head : whole.heads) entries += head.length();
  EXPECT_EQ(cache.entries(), entries);
  EXPECT_EQ(cache.entries_evicted(), kLayers * kHeads * 74 - entries);
  EXPECT_EQ(pool->num_used(), cache.num_pages());
  EXPECT_FALSE(cache.TakeSnapshot(/*with_mass=*/false).has_mass());
}

TEST_P(SnapshotTest, AnySplitOfTheHeadsMergesToTheSame) {
  for (const std::vector<int64_t>& split : {std::vector<int64_t>{1, 2}, {2, 1}, {1, 1, 1}, {3}}) {
    const auto pool = Pool();
    std::vector<SequenceSnapshot> parts;
    int64_t first = 0, evicted = 0;
    for (int64_t count : split) {
      const SequenceCache cache = Cache(*pool, first, count);
      parts.push_back(cache.TakeSnapshot(/*with_mass=*/true));
      evicted += cache.entries_evicted();
      first += count;
    }
    const SequenceSnapshot merged = MergeSnapshots(parts);
    EXPECT_EQ(merged, Whole());
    EXPECT_TRUE(CheckSnapshot(merged).ok());
    const auto all = Pool();
    EXPECT_EQ(evicted, Cache(*all, 0, kHeads).entries_evicted());
    EXPECT_EQ(pool->num_used(), 0);  // the caches are gone
  }
}

TEST_P(SnapshotTest, ARestoredCacheGoesOn) {
  const auto pool = Pool();
  SequenceCache cache = Cache(*pool, 1, 2);
  ASSERT_TRUE(cache.Reserve(20).ok());
  cache.Append(20);
  EXPECT_EQ(cache.tokens_seen(), 90);
  EXPECT_EQ(cache.head(0, 0).positions.back(), 93);
  KeepPlan plan;
  for (int64_t i = 0; i < kLayers * 2; ++i) plan.kept.push_back({0, 1, 2});
  cache.Compact(plan);
  EXPECT_EQ(cache.queries().num_rows(), 3);
  EXPECT_EQ(cache.queries().head(1, 0), Whole().head(1, 1).queries);
  EXPECT_EQ(cache.evictions(), 3);
  EXPECT_EQ(cache.entries_evicted(), kLayers * 2 * (94 - 3));
}

TEST_P(SnapshotTest, TooFewPagesLeaveTheCacheEmpty) {
  const auto pool = Pool(10);
  SequenceCache cache(*pool, kLayers, kHeads, 0);
  const Status status = cache.Restore(Whole());
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("free 10 of 10"));
  EXPECT_EQ(cache.entries(), 0);
  EXPECT_EQ(pool->num_used(), 0);
}

TEST_P(SnapshotTest, BytesBetweenRanksBringItBack) {
  ByteWriter writer;
  WriteSnapshot(Whole(), writer);
  const auto bytes = writer.Take();
  ByteReader reader(bytes);
  EXPECT_EQ(ReadSnapshot(reader), Whole());
  EXPECT_TRUE(reader.AtEnd());
}

TEST_P(SnapshotTest, RefusesWhatNoCacheCouldBe) {
  const struct {
    const char* part;
    std::function<void(SequenceSnapshot&)> spoil;
  } kCases[] = {
      {"1 or more tokens", [](auto& s) { s.tokens_seen = 0; }},
      {"evictions", [](auto& s) { s.evictions = -1; }},
      {"1 or more tokens", [](auto& s) { s.tokens_seen = std::numeric_limits<int32_t>::max(); }},
      {"pinned positions: expected ascending",
       [](auto& s) {
         s.pinned_positions = {20, 20, 22, 40};
       }},
      {"pinned positions: expected ascending", [](auto& s) { s.pinned_positions[3] = 74; }},
      {"pinned positions: expected ascending", [](auto& s) { s.pinned_positions[0] = -1; }},
      {"layer 1, KV head 1: positions: expected ascending",
       [](auto& s) { std::swap(s.heads[4].positions[3], s.heads[4].positions[4]); }},
      {"layer 0, KV head 2: positions: expected ascending",
       [](auto& s) { s.heads[2].positions[5] = s.heads[2].positions[4]; }},
      {"below 74, found 74", [](auto& s) { s.heads[0].positions.back() = 74; }},
      {"found -5 at index 0", [](auto& s) { s.heads[0].positions[0] = -5; }},
      {"pinned ones among them",
       [](auto& s) {
         s.pinned_positions.pop_back();
         s.pinned_positions.push_back(71);
         s.heads[1].positions.back() = 72;
         std::erase(s.heads[1].positions, 71);
       }},
      {"layer 0, KV head 1: keys: expected", [](auto& s) { s.heads[1].keys.pop_back(); }},
      {"layer 1, KV head 0: queries: expected 192 numbers, found 191", [](auto& s) { s.heads[3].queries.pop_back(); }},
      {"layer 0, KV head 1: queries: expected finite numbers",
       [](auto& s) { s.heads[1].queries[5] = std::numeric_limits<float>::infinity(); }},
      {"queries: expected those of at most the 70 tokens seen, found 71", [](auto& s) { s.query_rows = 71; }},
      {"queries: expected those of at most the 70 tokens seen, found -1", [](auto& s) { s.query_rows = -1; }},
      {"layer 0, KV head 1: values: expected", [](auto& s) { s.heads[1].values.resize(0); }},
      {"layer 1, KV head 0: keys: expected finite numbers, found NaN or infinity in slot 2",
       [](auto& s) {
         const size_t element = s.heads[3].keys.size() / size_t(s.heads[3].length() * kHeadDim);
         std::memset(s.heads[3].keys.data() + (2 * kHeadDim + 7) * element, 0xff, element);
       }},
      {"layer 0, KV head 0: values: expected finite numbers, found NaN or infinity in slot 0",
       [](auto& s) {
         const float infinity = std::numeric_limits<float>::infinity();
         const size_t element = s.heads[0].keys.size() / size_t(s.heads[0].length() * kHeadDim);
         std::memcpy(s.heads[0].values.data(), reinterpret_cast<const uint8_t*>(&infinity) + (4 - element), element);
       }},
      {"mass: expected", [](auto& s) { s.heads[1].mass.pop_back(); }},
      {"mass: expected", [](auto& s) { s.heads[1].mass.clear(); }},
      {"mass: expected", [](auto& s) { s.heads[0].mass.clear(); }},
      {"counters from 0 to", [](auto& s) { s.heads[1].mass[1] = -1; }},
      {"counters from 0 to", [](auto& s) { s.heads[1].mass[1] = std::numeric_limits<int64_t>::max(); }},
  };
  EXPECT_TRUE(CheckSnapshot(Whole()).ok());
  for (const auto& [part, spoil] : kCases) {
    SequenceSnapshot spoiled = Whole();
    spoil(spoiled);
    const Status status = CheckSnapshot(spoiled);
    EXPECT_EQ(status.code(), StatusCode::kBadFile) << part;
    EXPECT_THAT(status.message(), HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(Kv, SnapshotTest, testing::Values(DType::kBF16, DType::kF32),
                         [](const testing::TestParamInfo<DType>& dtype) { return std::string(Name(dtype.param)); });

}  // namespace
}  // namespace winnow
