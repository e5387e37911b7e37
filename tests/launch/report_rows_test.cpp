#include "launch/report_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace winnow {
namespace {

using testing::HasSubstr;

ResultJson Result(const std::string& kind, ResultJson row) {
  ResultJson result;
  result["format"] = {{"rows", kind}};
  result["rows"] = ResultJson::array();
  result["rows"].push_back(std::move(row));
  return result;
}

ResultJson LossRow() {
  return {{"policy", "h2o"},           {"loss", 2.5},       {"full_loss", 2},
          {"loss_ratio", 1.25},        {"kl", 0.1},         {"top1_agreement", 0.9},
          {"kept_ratio_average", 0.5}, {"ci95", {0.1, 0.2}}};
}

TEST(ReportRows, OfEveryKindAreTaken) {
  EXPECT_TRUE(CheckReportRows("f", Result("loss", LossRow())).ok());
  const ResultJson task = {{"policy", "full"}, {"score", 1}, {"full_score", 1}, {"kept_ratio", 1}};
  EXPECT_TRUE(CheckReportRows("f", Result("ruler", task)).ok());
  EXPECT_TRUE(CheckReportRows("f", Result("qa", task)).ok());
  const ResultJson cell = {{"policy", "full"}, {"length", 1000}, {"depth", 50}, {"score", 1}, {"kept_ratio", 1}};
  EXPECT_TRUE(CheckReportRows("f", Result("needle", cell)).ok());
  EXPECT_TRUE(CheckReportRows("f", Result("patterns", {{"policy", "full"}})).ok());
}

TEST(ReportRows, OfAnUnknownKindAreRefused) {
  const Status status = CheckReportRows("some.json", Result("foo", LossRow()));
  EXPECT_EQ(status.code(), StatusCode::kBadFile);
  EXPECT_THAT(status.message(), HasSubstr("'some.json'"));
  EXPECT_THAT(status.message(), HasSubstr("expected loss, ruler, needle, qa or patterns, found foo"));
}

TEST(ReportRows, WithoutTheirNumbersAreRefusedByName) {
  ResultJson row = LossRow();
  row.erase("loss");
  EXPECT_THAT(CheckReportRows("f", Result("loss", row)).message(),
              HasSubstr("\"rows/0/loss\": expected a number, found nothing"));
  row["loss"] = "abc";
  EXPECT_THAT(CheckReportRows("f", Result("loss", row)).message(), HasSubstr("found \"abc\""));
  row["loss"] = nullptr;
  EXPECT_THAT(CheckReportRows("f", Result("loss", row)).message(), HasSubstr("found null"));
}

TEST(ReportRows, WithHalfAnIntervalAreRefused) {
  for (const ResultJson& interval : {ResultJson::array({1}), ResultJson::array({1, "2"}), ResultJson(3)}) {
    ResultJson row = LossRow();
    row["ci95"] = interval;
    EXPECT_THAT(CheckReportRows("f", Result("loss", row)).message(),
                HasSubstr("\"rows/0/ci95\": expected two numbers, found "));
  }
}

}  // namespace
}  // namespace winnow
