#include "eval/text_scores.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/text_words.h"

namespace winnow {
namespace {

using Texts = std::vector<std::string>;

TEST(TextScores, AgreeWithPlainPython) {
  std::ifstream file(WINNOW_GOLDEN_DIR "/text_scores.jsonl");
  int64_t cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const auto want = nlohmann::json::parse(line);
    const std::string prediction = want["prediction"], reference = want["reference"];
    EXPECT_NEAR(TokenF1(prediction, reference), want["f1"], 1e-12) << line;
    EXPECT_NEAR(RougeL(prediction, reference), want["rouge_l"], 1e-12) << line;
    EXPECT_NEAR(Rouge1Recall(prediction, reference), want["rouge1_recall"], 1e-12) << line;
    EXPECT_NEAR(EditSimilarity(prediction, reference), want["edit"], 1e-12) << line;
  }
  EXPECT_EQ(cases, 40);
}

TEST(TextScores, ASubstringCountsForEveryReferenceThatIsFound) {
  const Texts names = {"ABCDE", "fghij", "KLMNO", "PQRST"};
  EXPECT_EQ(StringMatchAll("abcde and FGHIJ", names), 0.5);
  EXPECT_EQ(StringMatchPart("abcde and FGHIJ", names), 1);
  EXPECT_EQ(StringMatchPart("nothing", names), 0);
  EXPECT_EQ(StringMatchAll("", names), 0);
}

TEST(TextScores, ControlCharactersVanishFromAPrediction) {
  EXPECT_EQ(CleanPrediction(" \t\x01 12\x02"
                            "34\n "),
            "1234");
  EXPECT_EQ(StringMatchAll("12\n34", Texts{"1234"}), 1);
}

TEST(TextScores, CapitalsOfOtherAlphabetsAreCapitals) {
  EXPECT_EQ(Lower("ÀÉÞ×ß ΑΩ ЀЯ 東 \xc3"), "àéþ×ß αω ѐя 東 \xc3");
}

TEST(TextScores, TheFirstCodeLineIsNoCommentAndNoFence) {
  EXPECT_EQ(FirstCodeLine("\n\n# why\n```python\n  return 1\nx = 2"), "  return 1");
  EXPECT_EQ(FirstCodeLine("// nothing else"), "");
  EXPECT_EQ(FirstCodeLine(""), "");
}

TEST(TextScores, AClassCountsLessAmongOthers) {
  const Texts classes = {"animal", "human", "human group", "number"};
  EXPECT_EQ(Classification("a human", "human", classes), 1);
  EXPECT_EQ(Classification("human or number", "human", classes), 0.5);
  EXPECT_EQ(Classification("human group", "human group", classes), 1) << "\"human\" is part of the reference";
  EXPECT_EQ(Classification("animal", "human", classes), 0);
}

TEST(TextScores, NumbersAreCountedAmongAllThatWereNamed) {
  EXPECT_EQ(NumberShare("Paragraph 12", "Paragraph 12"), 1);
  EXPECT_EQ(NumberShare("12, 3 or 12", "Paragraph 12"), 2.0 / 3);
  EXPECT_EQ(NumberShare("none", "12"), 0);
}

}  // namespace
}  // namespace winnow
