#include "eval/answer_extraction.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using Text = std::optional<std::string>;

TEST(AnswerExtraction, BracesOfABoxAreMatched) {
  EXPECT_EQ(LastBoxed(R"(so \boxed{\frac{1}{2}})"), Text(R"(\frac{1}{2})"));
  EXPECT_EQ(LastBoxed(R"(\boxed{a^{b^{c}}} and \boxed{ 7 }.)"), Text(" 7 "));
  EXPECT_EQ(LastBoxed(R"(\boxed{\{1, 2\}})"), Text(R"(\{1, 2\})"));
  EXPECT_EQ(LastBoxed(R"(\boxed {204})"), Text("204"));
  EXPECT_EQ(LastBoxed(R"(\boxed{})"), Text(""));
}

TEST(AnswerExtraction, ABoxThatWasNeverClosedIsNone) {
  EXPECT_EQ(LastBoxed(R"(\boxed{1} then \boxed{2)"), Text("1"));
  EXPECT_EQ(LastBoxed(R"(\boxed{2)"), std::nullopt);
  EXPECT_EQ(LastBoxed(R"(\boxed 2)"), std::nullopt);
  EXPECT_EQ(LastBoxed(R"(\boxed)"), std::nullopt);
  EXPECT_EQ(LastBoxed(""), std::nullopt);
}

TEST(AnswerExtraction, NumbersHaveOneForm) {
  EXPECT_EQ(FinalNumber("He pays $1,234.50."), Text("1234.5"));
  EXPECT_EQ(FinalNumber("3 + 4 = 7 apples\n#### 7"), Text("7"));
  EXPECT_EQ(FinalNumber("#### 7\n#### 8 and 9"), Text("8"));
  EXPECT_EQ(FinalNumber("x #### -$1,000"), Text("-1000"));
  EXPECT_EQ(FinalNumber("it is \u22125"), Text("-5"));
  EXPECT_EQ(FinalNumber("pages 3-4"), Text("4"));
  EXPECT_EQ(FinalNumber("42.00"), Text("42"));
  EXPECT_EQ(FinalNumber("007"), Text("7"));
  EXPECT_EQ(FinalNumber("-0.0"), Text("0"));
  EXPECT_EQ(FinalNumber(".5"), Text("0.5"));
  EXPECT_EQ(FinalNumber("1, 2"), Text("2"));
  EXPECT_EQ(FinalNumber("(1,2)"), Text("2"));
  EXPECT_EQ(FinalNumber(R"(\boxed{12{,}345} or 9)"), Text("12345"));
  EXPECT_EQ(FinalNumber("none"), std::nullopt);
  EXPECT_EQ(FinalNumber("#### none"), std::nullopt);
  EXPECT_EQ(FinalNumber(""), std::nullopt);
}

TEST(AnswerExtraction, ChoicesAreFoundInTheFormsThatModelsUse) {
  for (const char* text :
       {"Answer: (B)", "Answer: B", "**Answer:** B", "The answer is B.", "the correct answer is (b)", R"(so \boxed{B})",
        R"(\boxed{\text{B}})", R"(\boxed{(B)})", "B", "B.", "B) because", "(A) is wrong, so (B)",
        "Final answer: option B", "The answer is the letter B", "answer A? No. Answer: B"}) {
    EXPECT_EQ(LetterChoice(text, 4), 'B') << text;
  }
}

TEST(AnswerExtraction, WhatIsNoChoiceIsNone) {
  for (const char* text : {"", "Because", "A good question", "The answer is Bob", "Answer: E", "(F)", "I think so",
                           R"(\boxed{7})", "the answer is a mystery", "Answer: Émile"}) {
    EXPECT_EQ(LetterChoice(text, 4), std::nullopt) << text;
  }
  EXPECT_EQ(LetterChoice("Answer: E", 5), 'E');
}

TEST(AnswerExtraction, AStatedAnswerEndsWithItsLine) {
  EXPECT_EQ(StatedAnswer("So the answer is (B).\n\nQ: next"), Text("(B)"));
  EXPECT_EQ(StatedAnswer("the answer is no. Wait, the answer is **True**."), Text("True"));
  EXPECT_EQ(StatedAnswer("Answer: not plausible"), Text("not plausible"));
  EXPECT_EQ(StatedAnswer("The answer is"), std::nullopt);
  EXPECT_EQ(StatedAnswer("no"), std::nullopt);
}

TEST(AnswerExtraction, MathHasOneForm) {
  const std::string half = R"(\frac{1}{2})";
  for (const char* text : {R"(\dfrac{1}{2})", R"(\tfrac{1}{2})", "1/2", R"($\frac12$)", R"(\frac{1}{2}.)",
                           R"(x = \frac{1}{2})", R"(\left\frac{1}{2}\right)"}) {
    EXPECT_EQ(NormaliseMath(text), half) << text;
  }
  EXPECT_EQ(NormaliseMath("-1/2"), R"(-\frac{1}{2})");
  for (const char* text :
       {"025", " 25 ", "25.0", R"(25^\circ)", R"(25\%)", R"(25\text{ cm})", "$25$", R"(\text{25})"}) {
    EXPECT_EQ(NormaliseMath(text), "25") << text;
  }
  EXPECT_EQ(NormaliseMath("1,234"), "1234");
  EXPECT_EQ(NormaliseMath("(1,2)"), "(1,2)");
  EXPECT_EQ(NormaliseMath(""), "");
}

}  // namespace
}  // namespace winnow
