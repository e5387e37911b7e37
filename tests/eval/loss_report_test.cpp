#include "eval/loss_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "eval/bootstrap.h"

namespace winnow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ScoredText Text(const std::string& id, const std::string& kind, int64_t evictions = 8) {
  TextScore score;
  score.positions = 10;
  score.loss = 30;
  score.full_loss = 20;
  score.high_entropy_positions = 2;
  score.high_entropy_loss = 12;
  score.high_entropy_full_loss = 10;
  score.kl = 4;
  score.top1_agreement = 7;
  score.kept_ratio_sum = 30;
  score.tokens = 40;
  score.cache.evictions = evictions;
  score.cache.kept_entries = 25;
  score.cache.evicted_entries = 75;
  score.cache.full_entries = 100;
  score.cache.peak_bytes_per_rank = {500, 300};
  return {id, kind, score};
}

TEST(LossReport, MeansAndRatiosOfOneTextAreThoseWorkedOutByHand) {
  const std::vector<LossRow> rows = SummariseLoss({Text("a", "prose")});
  ASSERT_EQ(rows.size(), 1u);
  const LossRow& row = rows[0];
  EXPECT_EQ(row.texts, "all");
  EXPECT_EQ(row.num_texts, 1);
  EXPECT_EQ(row.positions, 10);
  EXPECT_EQ(row.loss, 3.0);
  EXPECT_EQ(row.full_loss, 2.0);
  EXPECT_EQ(row.loss_ratio, 1.5);
  EXPECT_EQ(row.loss_ratio_low_entropy, 1.8);   // (30 - 12) / (20 - 10)
  EXPECT_EQ(row.loss_ratio_high_entropy, 1.2);  // 12 / 10
  EXPECT_EQ(row.kl, 0.4);
  EXPECT_EQ(row.top1_agreement, 0.7);
  EXPECT_EQ(row.kept_ratio, 0.25);
  EXPECT_EQ(row.kept_ratio_average, 0.75);
  EXPECT_EQ(row.evicted_entries, 75);
  EXPECT_EQ(row.evictions_per_text, 8.0);
  EXPECT_EQ(row.ci95, std::pair(1.0, 1.0));
}

// Losses are means over positions, so that a long text counts for more; kept ratios are means over texts.
TEST(LossReport, PositionsWeighTheLossAndTextsTheKeptRatio) {
  ScoredText longer = Text("b", "prose", 16);
  longer.score.positions = 30;
  longer.score.loss = 30;
  longer.score.full_loss = 30;
  longer.score.kl = 0;
  longer.score.cache.kept_entries = 75;
  longer.score.cache.peak_bytes_per_rank = {400, 600};
  const LossRow row = SummariseLoss({Text("a", "prose"), longer})[0];
  EXPECT_EQ(row.positions, 40);
  EXPECT_EQ(row.loss, 60 / 40.0);
  EXPECT_EQ(row.loss_ratio, 60 / 50.0);
  EXPECT_EQ(row.kl, 0.1);
  EXPECT_EQ(row.kept_ratio, 0.5);
  EXPECT_EQ(row.evictions_per_text, 12.0);
  EXPECT_EQ(row.evicted_entries, 150);
  EXPECT_THAT(row.peak_bytes_per_rank, ElementsAre(500, 600));
  EXPECT_EQ(row.ci95, std::pair(0.0, 1.0));  // of the two texts' own differences
}

TEST(LossReport, SeveralKindsGetARowEachBehindAll) {
  ScoredText code = Text("c", "code");
  code.score.loss = 25;
  const std::vector<LossRow> rows = SummariseLoss({Text("a", "prose"), code, Text("b", "prose")});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_THAT((std::vector{rows[0].texts, rows[1].texts, rows[2].texts}), ElementsAre("all", "prose", "code"));
  EXPECT_THAT((std::vector{rows[0].num_texts, rows[1].num_texts, rows[2].num_texts}), ElementsAre(3, 2, 1));
  EXPECT_EQ(rows[1].loss, 3.0);
  EXPECT_EQ(rows[2].loss, 2.5);
  EXPECT_EQ(rows[0].loss, 85 / 30.0);
}

TEST(LossReport, TheIntervalIsThatOfThePairedBootstrap) {
  std::vector<ScoredText> texts;
  std::vector<PairedDocument> documents;
  for (int64_t i = 0; i < 7; ++i) {
    texts.push_back(Text(std::to_string(i), "prose"));
    texts.back().score.loss += double(i * i % 5);
    documents.push_back({texts.back().score.loss - 20, 10});
  }
  const LossRow row = SummariseLoss(texts)[0];
  EXPECT_EQ(row.ci95, BootstrapInterval95(documents, 95));
  EXPECT_LT(row.ci95.first, row.loss - row.full_loss);
  EXPECT_GT(row.ci95.second, row.loss - row.full_loss);
}

TEST(LossReport, FewerThanEightEvictionsInAnyTextAreRefusedByName) {
  const EvictionTiming chunked = EvictionTiming::kChunked;
  EXPECT_TRUE(CheckEvictions({Text("a", "prose", 8), Text("b", "prose", 100)}, chunked).ok());
  const Status few = CheckEvictions({Text("a", "prose", 8), Text("short one", "prose", 7)}, chunked);
  EXPECT_EQ(few.code(), StatusCode::kInvalidArgument);
  for (const char* part : {"short one", "41 tokens", "saw 7 evictions", "at least 8"}) {
    EXPECT_THAT(few.message(), HasSubstr(part));
  }
  EXPECT_FALSE(CheckEvictions({Text("a", "prose", 0)}, chunked).ok());
}

// They evict once a text.
TEST(LossReport, PoliciesThatActAfterThePromptNeedEightEvictionsInAllTextsTogether) {
  std::vector<ScoredText> texts(7, Text("a", "prose", 1));
  const Status few = CheckEvictions(texts, EvictionTiming::kAfterPrefill);
  EXPECT_EQ(few.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(few.message(), HasSubstr("saw 7 evictions together"));
  texts.push_back(Text("b", "code", 1));
  EXPECT_TRUE(CheckEvictions(texts, EvictionTiming::kAfterPrefill).ok());
  texts.push_back(Text("short one", "prose", 0));
  EXPECT_THAT(CheckEvictions(texts, EvictionTiming::kAfterPrefill).message(), HasSubstr("short one saw no eviction"));
}

// A full cache that is certain of every token has loss 0: no ratio, but no infinity in a result either.
TEST(LossReport, ARatioToNothingIsZero) {
  ScoredText text = Text("a", "prose");
  text.score.full_loss = text.score.high_entropy_full_loss = 0;
  const LossRow row = SummariseLoss({text})[0];
  EXPECT_EQ(row.loss_ratio, 0.0);
  EXPECT_EQ(row.loss_ratio_low_entropy, 0.0);
  EXPECT_EQ(row.loss_ratio_high_entropy, 0.0);
}

}  // namespace
}  // namespace winnow
