#include "eval/needle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "eval/sample_scores.h"
#include "eval/text_words.h"

namespace winnow {
namespace {

using ::testing::HasSubstr;

const Haystack kGenerated;

Result<int64_t> CountWords(const NeedleSample& sample) {
  return int64_t(Words(sample.context + sample.question).size());
}

TEST(Needle, StandsAtItsDepth) {
  for (int64_t depth : {0, 25, 50, 75, 100}) {
    const NeedleSample sample = MakeNeedleSample(kGenerated, 1, 0, depth, 200);
    const size_t book = sample.context.find("<book> ") + 7, at = sample.context.find(sample.needle);
    ASSERT_NE(at, std::string::npos);
    const double length = double(sample.context.size() - sample.needle.size() - book);
    EXPECT_NEAR(double(at - book) / length * 100, double(depth), 1.0);
    EXPECT_THAT(sample.needle, HasSubstr(sample.number));
    EXPECT_EQ(sample.question.find(sample.number), std::string::npos);
  }
}

TEST(Needle, IsTheSameAtEveryDepthAndAnotherInEverySample) {
  const NeedleSample first = MakeNeedleSample(kGenerated, 1, 0, 0, 20),
                     deep = MakeNeedleSample(kGenerated, 1, 0, 90, 80);
  EXPECT_EQ(first.needle, deep.needle);
  EXPECT_NE(first.number, MakeNeedleSample(kGenerated, 1, 1, 0, 20).number);
}

TEST(Needle, TheLongestTextThatFitsIsMade) {
  const auto sample = FitNeedleSample(kGenerated, 1, 0, 50, 500, CountWords);
  ASSERT_TRUE(sample.ok()) << sample.status().message();
  const int64_t tokens = CountWords(*sample).value() + kNeedleAnswerTokens;
  EXPECT_LE(tokens, 500);
  EXPECT_GT(tokens, 475);
  const auto small = FitNeedleSample(kGenerated, 1, 0, 50, 40, CountWords);
  ASSERT_FALSE(small.ok());
  EXPECT_THAT(small.status().message(), HasSubstr("found a length of 40"));
}

TEST(SampleScores, AreMeansWithTheirDoubt) {
  const std::vector<double> scores = {1, 0, 0.5, 0.5}, full = {1, 1, 1, 1};
  const SampleSummary summary = SummariseSamples(scores, full, 1);
  EXPECT_EQ(summary.samples, 4);
  EXPECT_EQ(summary.score, 50);
  EXPECT_EQ(summary.full_score, 100);
  EXPECT_EQ(summary.retained, 0.5);
  EXPECT_NEAR(summary.standard_error, 100 * std::sqrt(0.5 / 3 / 4), 1e-12);
  EXPECT_LE(summary.ci95.first, -50);
  EXPECT_GE(summary.ci95.second, -50);
}

TEST(SampleScores, NothingIsRetainedOfNothing) {
  const std::vector<double> zero = {0};
  const SampleSummary summary = SummariseSamples(zero, zero, 1);
  EXPECT_EQ(summary.retained, std::nullopt);
  EXPECT_EQ(summary.standard_error, 0);
}

}  // namespace
}  // namespace winnow
