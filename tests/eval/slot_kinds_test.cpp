// Kinds of KV pairs: the definition by hand, and a study over ranks.
#include "eval/slot_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "eval/pattern_study.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

// A text of 8 blocks of 2 tokens. sightings[b]: whether block b pays token 0 its equal share.
SlotKind KindOfFirstToken(const std::vector<int>& sightings, int64_t num_tokens = 16) {
  BlockAttention attention{
      .blocks = {.begin = 2, .interval = 2}, .tokens = std::vector<int32_t>(size_t(num_tokens)), .mean = {}};
  for (int64_t end = 4; end <= num_tokens; end += 2) {
    std::vector<float> mean(size_t(end), 0.0f);
    mean[0] = (sightings[size_t(end / 2 - 1)] != 0 ? 1.0f : 0.99f) / float(end);
    attention.mean.push_back({mean});
  }
  return SlotKindsOf(attention).at(0).at(0);
}

// Token 0 stands in block 0; block 1 is near, 2 to 7 are far.
TEST(SlotKinds, AreToldByWhichBlocksPayAnEqualShare) {
  EXPECT_EQ(KindOfFirstToken({0, 0, 0, 0, 0, 0, 0, 0}), SlotKind::kIdle);
  EXPECT_EQ(KindOfFirstToken({0, 1, 0, 0, 0, 0, 0, 0}), SlotKind::kLocal);
  EXPECT_EQ(KindOfFirstToken({0, 1, 0, 0, 0, 0, 0, 1}), SlotKind::kSemantic);
  EXPECT_EQ(KindOfFirstToken({0, 0, 1, 0, 1, 0, 0, 0}), SlotKind::kSemantic);
  EXPECT_EQ(KindOfFirstToken({0, 0, 1, 0, 1, 0, 1, 0}), SlotKind::kGlobal);
  EXPECT_EQ(KindOfFirstToken({0, 1, 1, 1, 1, 1, 1, 1}), SlotKind::kGlobal);
  EXPECT_EQ(KindOfFirstToken({0, 1, 1, 1, 1, 1}, 12), SlotKind::kGlobal) << "4 far blocks";
  EXPECT_EQ(KindOfFirstToken({0, 1, 1, 1, 1}, 10), SlotKind::kNone) << "3 far blocks";
}

// 13 tokens: the block of one token at the end counts for nothing.
TEST(SlotKinds, TheLastTokensAndABlockThatIsNotFullDoNotCount) {
  BlockAttention attention{.blocks = {.begin = 2, .interval = 2}, .tokens = std::vector<int32_t>(13), .mean = {}};
  for (size_t end : {4, 6, 8, 10, 12, 13}) {
    attention.mean.push_back({std::vector<float>(end, end == 13 ? 1.0f : 0.0f)});
  }
  const std::vector<SlotKind> kinds = SlotKindsOf(attention).at(0);
  ASSERT_EQ(kinds.size(), 13u);
  for (size_t token = 0; token < kinds.size(); ++token) {
    EXPECT_EQ(kinds[token], token < 2 ? SlotKind::kIdle : SlotKind::kNone) << token;
  }
}

PatternScore Study(const TinyModel& model, const EvalText& text, int num_ranks) {
  std::vector<EvictionSettings> cases;
  for (const char* policy : {"streaming-llm", "golden", "ada-snapkv"}) {
    const EvictionSettings asked{.policy = policy, .budget = 24, .interval = 8, .sink_tokens = 2, .recent_tokens = 4};
    cases.push_back(ResolveEviction(asked, {.has_future = true}).value());
  }
  PatternScore score;
  std::mutex mutex;  // guards score
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    const auto engine = RankEngine::Make(model.file, model.config, {.pool_slots = 512}, communicator, nullptr).value();
    int64_t last = 0;
    auto mine = RunPatternStudy(*engine, communicator, text, cases, 8, 1, [&](int64_t done) { last = done; });
    ASSERT_TRUE(mine.ok()) << mine.status().message();
    EXPECT_EQ(last, PatternStudyTokens(text, cases));
    const std::lock_guard lock(mutex);
    if (communicator.rank() == 0) score = std::move(mine).value();
  });
  return score;
}

TEST(PatternStudy, CountsPairsAndWhatIsHeldOfThemAlikeOnAnyRanks) {
  const TinyModel model{{}};
  EvalText text{.id = "text", .kind = "made up", .tokens = {}};
  for (int32_t i = 0; i < 121; ++i) text.tokens.push_back((i * i * 31 + 7 * i + 3) % 256);
  const PatternScore one = Study(model, text, 1);
  ASSERT_EQ(one.heads.size(), 6u);
  // 15 blocks; the tokens of the last 5 have fewer than 4 far ones.
  for (const KindCounts& head : one.heads) EXPECT_EQ(head[0] + head[1] + head[2] + head[3], 80);
  for (const PatternCase& c : one.cases) {
    EXPECT_EQ(c.evictions, 12);  // at 32, 40, ... 120
    int64_t held = 0, present = 0;
    for (size_t layer = 0; layer < 2; ++layer) {
      for (size_t kind = 0; kind < kNumSlotKinds; ++kind) {
        EXPECT_LE(c.held[layer][kind], c.present[layer][kind]);
        held += c.held[layer][kind];
        present += c.present[layer][kind];
      }
    }
    // Tokens before 80 of each head.
    EXPECT_EQ(present, (32 + 40 + 48 + 56 + 64 + 72 + 6 * 80) * 6);
    EXPECT_GT(held, 0);
  }
  // Of what the rest attends to again the oracle holds more than who keeps the newest.
  const auto held_of_global = [&](size_t i) { return one.cases[i].held[0][0] + one.cases[i].held[1][0]; };
  EXPECT_GT(held_of_global(1), held_of_global(0));
  for (int ranks : {2, 3}) {
    const PatternScore other = Study(model, text, ranks);
    EXPECT_EQ(other.heads, one.heads);
    for (size_t i = 0; i < one.cases.size(); ++i) {
      EXPECT_EQ(other.cases[i].held, one.cases[i].held);
      EXPECT_EQ(other.cases[i].present, one.cases[i].present);
      EXPECT_EQ(other.cases[i].evictions, one.cases[i].evictions);
    }
  }
}

}  // namespace
}  // namespace winnow
