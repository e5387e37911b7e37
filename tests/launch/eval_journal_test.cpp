#include "launch/eval_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "launch/eval_loss_units.h"
#include "tests/support/temporary_path.h"

namespace winnow {
namespace {

using testing::HasSubstr;
using Json = EvalJournal::Json;

const Json kIdentity = {{"settings", {{"seed", 0}, {"policies", {"random", "h2o"}}}}, {"model", "tiny"}};

class Journal : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<EvalJournal> Open(bool resume, const Json& identity = kIdentity) const {
    return EvalJournal::Open(path_, identity, resume);
  }
  void WriteTwoUnits() const {
    EvalJournal journal = Open(false).value();
    ASSERT_TRUE(journal.Append("a", {{"loss", 0.1 + 0.2}}).ok());
    ASSERT_TRUE(journal.Append("b", {{"loss", 1e-300}}).ok());
  }
  std::string Content() const {
    std::ostringstream content;
    content << std::ifstream(path_, std::ios::binary).rdbuf();
    return content.str();
  }
  void Write(const std::string& content) const { std::ofstream(path_, std::ios::binary) << content; }
  void ExpectRefused(StatusCode code, const std::string& part, bool resume = true,
                     const Json& identity = kIdentity) const {
    const Status status = Open(resume, identity).status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(part));
  }

  const std::filesystem::path folder_ =
      TemporaryPath(std::string("journal_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string path_ = (folder_ / "out.json.journal").string();
};

TEST_F(Journal, GivesFinishedUnitsBackByBits) {
  WriteTwoUnits();
  EvalJournal journal = Open(true).value();
  ASSERT_EQ(journal.finished().size(), 2u);
  EXPECT_EQ(journal.finished().at("a")["loss"].get<double>(), 0.1 + 0.2);
  EXPECT_EQ(journal.finished().at("b")["loss"].get<double>(), 1e-300);
  ASSERT_TRUE(journal.Append("c", 3).ok());
  journal.Remove();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Journal, CutsTheLineOffThatWasBeingWritten) {
  WriteTwoUnits();
  const std::string whole = Content();
  for (const std::string& torn :
       {std::string("{\"unit\":\"c\",\"val"), std::string("{"), std::string("{\"unit\":\"c\",\"value\":1}")}) {
    Write(whole + torn);
    EXPECT_EQ(Open(true).value().finished().size(), 2u);
    EXPECT_EQ(Content(), whole);
  }
  Write("{\"format\":{\"na");  // killed before the first line was there
  EXPECT_TRUE(Open(false).value().finished().empty());
  EXPECT_EQ(Content().find("{\"format\""), 0u);
}

TEST_F(Journal, OfAnUnfinishedRunIsNotOverwrittenUnasked) {
  WriteTwoUnits();
  ExpectRefused(StatusCode::kInvalidArgument, "give --resume", false);
  EXPECT_EQ(Open(true).value().finished().size(), 2u);
}

TEST_F(Journal, WithoutAFileResumeBeginsOne) {
  EXPECT_TRUE(Open(true).value().finished().empty());
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(Journal, OfAnotherEvaluationIsRefusedWithTheFirstDifference) {
  WriteTwoUnits();
  const auto refused = [&](const char* pointer, const Json& value, const std::string& part) {
    Json other = kIdentity;
    other[Json::json_pointer(pointer)] = value;
    ExpectRefused(StatusCode::kInvalidArgument, part, true, other);
  };
  refused("/settings/seed", 1, "settings/seed: the journal has 0, this run 1");
  refused("/settings/policies/1", "knorm", "settings/policies/1: the journal has \"h2o\", this run \"knorm\"");
  refused("/settings/policies", {"random"}, "settings/policies: the journal has [\"random\",\"h2o\"], this run");
  refused("/model", "large", "model: the journal has \"tiny\", this run \"large\"");
  refused("/settings/more", 1, "settings/more: the journal has nothing, this run 1");
  Json less = kIdentity;
  less.erase("model");
  ExpectRefused(StatusCode::kInvalidArgument, "model: the journal has \"tiny\", this run nothing", true, less);
}

TEST_F(Journal, ThatIsNoneIsRefusedWithItsLine) {
  Write("{\"rows\":[]}\n");
  ExpectRefused(StatusCode::kBadFile, "line 1: expected format");
  Write("not JSON\n");
  ExpectRefused(StatusCode::kBadFile, "line 1: expected a JSON object");
  std::filesystem::remove(path_);
  WriteTwoUnits();
  Write(Content() + "{\"unit\":3}\n");
  ExpectRefused(StatusCode::kBadFile, "line 4: expected \"unit\" and \"value\"");
}

TEST_F(Journal, IsWrittenByOneRunAtATime) {
  const EvalJournal journal = Open(false).value();
  ExpectRefused(StatusCode::kInvalidArgument, "another run");
}

TEST_F(Journal, ThatCannotBeWrittenEndsTheRunBeforeItsWork) {
  EXPECT_EQ(EvalJournal::Open((folder_ / "no" / "folder").string(), kIdentity, false).status().code(),
            StatusCode::kBadFile);
}

TEST(LossUnits, ScoresGoThroughJsonWithoutLosingABit) {
  TextScore score;
  score.positions = 7;
  score.loss = 1.0 / 3;
  score.full_loss = 0.1;
  score.high_entropy_positions = 2;
  score.high_entropy_loss = 1e-17;
  score.high_entropy_full_loss = 5e-324;
  score.kl = 4096.0 / 7;
  score.top1_agreement = 5;
  score.kept_ratio_sum = 123.456;
  score.tokens = 240;
  score.cache.evictions = 9;
  score.cache.kept_entries = 11;
  score.cache.evicted_entries = 12;
  score.cache.full_entries = 23;
  score.cache.peak_bytes_per_rank = {1, int64_t(1) << 60};
  score.cache.load = {.end_entries = {3, 4}, .peak_entries = {5, 6}};
  const Json json = Json::parse(ScoresJson({score, score}).dump());
  const std::vector<TextScore> back = ParseScores(json, 2).value();
  for (const TextScore& other : back) {
    EXPECT_EQ(other.positions, score.positions);
    EXPECT_EQ(other.loss, score.loss);
    EXPECT_EQ(other.full_loss, score.full_loss);
    EXPECT_EQ(other.high_entropy_positions, score.high_entropy_positions);
    EXPECT_EQ(other.high_entropy_loss, score.high_entropy_loss);
    EXPECT_EQ(other.high_entropy_full_loss, score.high_entropy_full_loss);
    EXPECT_EQ(other.kl, score.kl);
    EXPECT_EQ(other.top1_agreement, score.top1_agreement);
    EXPECT_EQ(other.kept_ratio_sum, score.kept_ratio_sum);
    EXPECT_EQ(other.tokens, score.tokens);
    EXPECT_EQ(other.cache.evictions, 9);
    EXPECT_EQ(other.cache.kept_entries, 11);
    EXPECT_EQ(other.cache.evicted_entries, 12);
    EXPECT_EQ(other.cache.full_entries, 23);
    EXPECT_EQ(other.cache.peak_bytes_per_rank, score.cache.peak_bytes_per_rank);
    EXPECT_EQ(other.cache.load.end_entries, score.cache.load.end_entries);
    EXPECT_EQ(other.cache.load.peak_entries, score.cache.load.peak_entries);
  }
  EXPECT_THAT(ParseScores(json, 3).status().message(), HasSubstr("3 policies"));
  Json less = json;
  less[1].erase("kl");
  EXPECT_THAT(ParseScores(less, 2).status().message(), HasSubstr("\"kl\""));
}

}  // namespace
}  // namespace winnow
