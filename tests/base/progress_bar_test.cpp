#include "base/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <utility>

namespace winnow {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Unit = ProgressOptions::Unit;

class ProgressBarTest : public ::testing::Test {
 protected:
  std::unique_ptr<ProgressBar> Make(ProgressOptions options) {
    return std::make_unique<ProgressBar>(
        options, [this](std::string_view text) { written_ += text; }, [this] { return now_s_; });
  }
  std::string TakeWritten() { return std::exchange(written_, {}); }

  std::string written_;
  double now_s_ = 1000.0;
};

TEST_F(ProgressBarTest, PrintsOnePlainLinePerInterval) {
  auto bar = Make({.label = "loading weights", .total = 100'000'000, .unit = Unit::kBytes, .plain_interval_s = 5});
  now_s_ += 4.9;
  bar->Update(10'000'000);
  EXPECT_THAT(TakeWritten(), IsEmpty());
  now_s_ += 0.1;
  bar->Update(25'000'000);
  EXPECT_EQ(TakeWritten(), "loading weights: 25% 25.0 MB of 100.0 MB, 5.0 MB/s, 15 s left\n");
  now_s_ += 1;
  bar->Update(30'000'000);
  EXPECT_THAT(TakeWritten(), IsEmpty());
}

TEST_F(ProgressBarTest, RedrawsOneTerminalLineAtMostTenTimesASecond) {
  auto bar = Make({.label = "prefill", .total = 1000, .step_name = "tokens", .terminal = true, .width = 120});
  now_s_ += 0.0625;
  bar->Update(100);
  EXPECT_THAT(TakeWritten(), IsEmpty());
  now_s_ += 0.0625;
  bar->Update(500);
  const std::string line = TakeWritten();
  EXPECT_THAT(line, StartsWith("\r\x1b[Kprefill: 50% 500 of 1000 tokens"));
  EXPECT_THAT(line, EndsWith(" [############............]"));
  EXPECT_THAT(line, Not(HasSubstr("\n")));
}

TEST_F(ProgressBarTest, ColoursTheBarOnlyWhenAsked) {
  auto bar = Make({.label = "x", .total = 2, .terminal = true, .color = true});
  now_s_ += 1;
  bar->Update(1);
  EXPECT_THAT(TakeWritten(), HasSubstr("\x1b[32m############............\x1b[0m"));
}

TEST_F(ProgressBarTest, ShortensTheBarToFitTheTerminal) {
  auto bar = Make({.label = "x", .total = 100, .terminal = true, .width = 66});
  now_s_ += 1;
  bar->Update(50);
  EXPECT_EQ(TakeWritten(), "\r\x1b[Kx: 50% 50 of 100 steps, 50 steps/s, 1.0 s left [########........]");
}

TEST_F(ProgressBarTest, NeverFillsTheLastColumnOfANarrowTerminal) {
  auto bar = Make({.label = "a label that is long", .total = 1000, .terminal = true, .width = 20});
  now_s_ += 1;
  bar->Update(1);
  EXPECT_EQ(TakeWritten(), "\r\x1b[Ka label that is lon");
}

TEST_F(ProgressBarTest, FinishReplacesTheOpenLineAndStatesTimeAndRate) {
  auto bar = Make({.label = "loading", .total = 4000, .unit = Unit::kBytes, .terminal = true});
  now_s_ += 2;
  bar->Update(4000);
  TakeWritten();
  bar->Finish();
  EXPECT_EQ(TakeWritten(), "\r\x1b[Kloading: 4.0 kB in 2.0 s, 2.0 kB/s\n");
}

TEST_F(ProgressBarTest, DoesNothingAfterFinish) {
  auto bar = Make({.label = "loading", .total = 10});
  now_s_ += 75;
  bar->Update(10);
  bar->Finish();
  TakeWritten();
  now_s_ += 100;
  bar->Update(5);
  bar->Finish();
  bar.reset();
  EXPECT_THAT(TakeWritten(), IsEmpty());
}

TEST_F(ProgressBarTest, EndsAnOpenTerminalLineWhenItIsAbandoned) {
  auto bar = Make({.label = "loading", .total = 10, .terminal = true});
  now_s_ += 1;
  bar->Update(1);
  TakeWritten();
  bar.reset();
  EXPECT_EQ(TakeWritten(), "\n");
}

TEST_F(ProgressBarTest, LeavesPercentAndTimeOutWhenTheTotalIsUnknown) {
  auto bar = Make({.label = "decode", .step_name = "tokens", .plain_interval_s = 1});
  now_s_ += 2;
  bar->Update(3);
  EXPECT_EQ(TakeWritten(), "decode: 3 tokens, 1.5 tokens/s\n");
}

TEST_F(ProgressBarTest, CountsMoreThanTheTotalAsTheTotal) {
  auto bar = Make({.label = "steps", .total = 10, .plain_interval_s = 1});
  now_s_ += 1;
  bar->Update(25);
  EXPECT_THAT(TakeWritten(), StartsWith("steps: 100% 10 of 10 steps"));
}

TEST_F(ProgressBarTest, SurvivesAClockThatStandsStill) {
  auto bar = Make({.label = "x", .total = 10, .plain_interval_s = 0});
  bar->Update(0);
  bar->Update(10);
  bar->Finish();
  EXPECT_THAT(TakeWritten(), EndsWith("x: 10 steps in 0.0 s\n"));
}

TEST_F(ProgressBarTest, WritesLongTimesInMinutesAndHours) {
  auto bar = Make({.label = "x", .total = 1000, .plain_interval_s = 1});
  now_s_ += 65;
  bar->Update(500);
  EXPECT_THAT(TakeWritten(), EndsWith("1:05 min left\n"));
  now_s_ += 7200;
  bar->Finish();
  EXPECT_THAT(TakeWritten(), HasSubstr(" in 2:01 h"));
}

TEST(ForStandardError, GivesPlainLinesOnADumbTerminal) {
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(ForStandardError({.label = "x"}).terminal);
  EXPECT_FALSE(ForStandardError({.label = "x"}).color);
}

}  // namespace
}  // namespace winnow
