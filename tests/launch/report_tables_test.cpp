#include "launch/report_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/report_figures.h"

namespace winnow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ResultJson LossRow(const std::string& policy, int64_t budget, double ratio, const std::string& texts = "all") {
  return {{"policy", policy},
          {"scope", "head"},
          {"budget", budget},
          {"ratio", nullptr},
          {"interval", 64},
          {"texts", texts},
          {"loss", 2 * ratio},
          {"full_loss", 2.0},
          {"loss_ratio", ratio},
          {"kept_ratio_average", double(budget) / 1024},
          {"ci95", {0.1, 0.4}},
          {"evictions_per_text", 12.5},
          {"peak_bytes_per_rank", {1048576, 1048576}}};
}

ResultJson LossResult(const std::vector<ResultJson>& rows, const std::string& texts = "1111", int64_t seed = 0) {
  return {{"format", {{"name", "winnow-result"}, {"version", 1}, {"rows", "loss"}}},
          {"settings",
           {{"policies", {"any"}}, {"budgets", {64}}, {"seed", seed}, {"texts", {{"count", 2}, {"hash", texts}}}}},
          {"model", {{"name", "tiny"}, {"fingerprint", "abcd"}}},
          {"rows", rows},
          {"refused", ResultJson::array()}};
}

TEST(ReportTables, RowsOfOneMeasurementStandTogether) {
  const auto tables = GroupResults({"a.json", "b.json"},
                                   {LossResult({LossRow("h2o", 256, 1.1)}), LossResult({LossRow("snapkv", 256, 1.2)})})
                          .value();
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].rows.size(), 2u);
  EXPECT_THAT(tables[0].files, ElementsAre("a.json", "b.json"));
}

TEST(ReportTables, OtherTextsModelsSettingsAndKindsGetTablesOfTheirOwn) {
  ResultJson other_model = LossResult({LossRow("h2o", 256, 1.1)}), other_kind = other_model;
  other_model["model"]["fingerprint"] = "ffff";
  other_kind["format"]["rows"] = "patterns";
  const auto tables =
      GroupResults({"a", "b", "c", "d", "e"},
                   {LossResult({LossRow("h2o", 256, 1.1)}), LossResult({LossRow("h2o", 256, 1.1)}, "2222"),
                    LossResult({LossRow("h2o", 256, 1.1)}, "1111", 7), other_model, other_kind})
          .value();
  EXPECT_EQ(tables.size(), 5u);
}

TEST(ReportTables, TheSameRowTwiceCountsOnceAndMayNotDiffer) {
  ResultJson on_two_ranks = LossRow("h2o", 256, 1.1);
  on_two_ranks["peak_bytes_per_rank"] = {2097152};
  const auto same = GroupResults({"a", "b"}, {LossResult({LossRow("h2o", 256, 1.1)}), LossResult({on_two_ranks})});
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same.value()[0].rows.size(), 1u);
  const Status other = GroupResults({"a.json", "b.json"},
                                    {LossResult({LossRow("h2o", 256, 1.1)}), LossResult({LossRow("h2o", 256, 1.3)})})
                           .status();
  EXPECT_EQ(other.code(), StatusCode::kInvalidArgument);
  for (const char* part : {"a.json", "b.json", "h2o", "256"}) EXPECT_THAT(other.message(), HasSubstr(part));
}

TEST(ReportTables, MarkdownHoldsEveryRowOnALineOfItsOwn) {
  ResultJson result = LossResult({LossRow("h2o", 256, 1.1), LossRow("h2o", 256, 1.25, "a|b\n# c")});
  result["refused"].push_back({{"policy", "tova"}, {"budget", "512"}, {"reason", "too few evictions"}});
  const std::string page = MarkdownOf(GroupResults({"a.json"}, {result}).value()[0], {"loss-all.svg"});
  EXPECT_THAT(page, HasSubstr("## loss: tiny\n"));
  EXPECT_THAT(page, HasSubstr("| h2o | 256 | all | 2.2000 | 2.0000 | 1.1000 |"));
  EXPECT_THAT(page, HasSubstr("a\\|b # c"));
  EXPECT_THAT(page, HasSubstr("0.10000 to 0.40000"));
  EXPECT_THAT(page, HasSubstr("![loss-all.svg](loss-all.svg)"));
  EXPECT_THAT(page, HasSubstr("- tova at budget 512: too few evictions"));
  EXPECT_THAT(page, Not(HasSubstr("low-H")));  // no row has it
}

TEST(ReportFigures, LossIsDrawnAgainstKeptEntriesAndBytesWithItsInterval) {
  const auto tables =
      GroupResults({"a"}, {LossResult({LossRow("h2o", 256, 1.1), LossRow("h2o", 128, 1.2), LossRow("tova", 256, 1.3)})})
          .value();
  const auto figures = FiguresOf(tables[0], "loss1-");
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].name, "loss1-all-kept");
  EXPECT_EQ(figures[1].name, "loss1-all-bytes");
  const ResultJson& kept = figures[0].content;
  EXPECT_EQ(kept["series"][0]["name"], "h2o");
  EXPECT_EQ(kept["series"][0]["x"].dump(), "[0.25,0.125]");
  EXPECT_EQ(kept["series"][0]["y"].dump(), "[1.1,1.2]");
  EXPECT_EQ(kept["series"][0]["low"].dump(), "[1.05,1.05]");
  EXPECT_EQ(kept["series"][0]["high"].dump(), "[1.2,1.2]");
  EXPECT_EQ(kept["reference"]["y"], 1.0);
  EXPECT_EQ(figures[1].content["series"][1]["x"].dump(), "[2.0]");  // MiB of both ranks
}

TEST(ReportFigures, ATableOfOnePointHasNone) {
  EXPECT_TRUE(FiguresOf(GroupResults({"a"}, {LossResult({LossRow("h2o", 256, 1.1)})}).value()[0], "").empty());
}

TEST(ReportFigures, NeedlesAreHeatMapsOfLengthAndDepth) {
  std::vector<ResultJson> rows;
  for (int64_t length : {1024, 512}) {
    for (int64_t depth : {0, 100}) {
      rows.push_back(
          {{"policy", "h2o"}, {"budget", 64}, {"length", length}, {"depth", depth}, {"score", double(depth + 1)}});
    }
  }
  rows.pop_back();
  ResultJson result = LossResult(rows);
  result["format"]["rows"] = "needle";
  const auto figures = FiguresOf(GroupResults({"a"}, {result}).value()[0], "needle1-");
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].name, "needle1-h2o-64");
  EXPECT_EQ(figures[0].content["columns"].dump(), R"(["512","1024"])");
  EXPECT_EQ(figures[0].content["rows"].dump(), R"(["0","100"])");
  EXPECT_EQ(figures[0].content["values"].dump(), "[[1.0,1.0],[null,101.0]]");
}

}  // namespace
}  // namespace winnow
