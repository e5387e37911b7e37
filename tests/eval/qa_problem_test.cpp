#include "eval/qa_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "eval/qa_data.h"

namespace winnow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<int32_t> kFewTokens = {1, 2, 3};

std::vector<int32_t> Looping(int64_t period) {
  std::vector<int32_t> ids = {7, 8, 9};
  for (int64_t i = 0; i < 5 * period + 40; ++i) ids.push_back(int32_t(i % period));
  return ids;
}

QaProblem Problem(QaMetric metric, std::vector<std::string> references) {
  QaProblem problem;
  problem.metric = metric;
  problem.references = std::move(references);
  return problem;
}

Verdict VerdictOf(const QaProblem& problem, const std::string& answer, bool is_cut = false,
                  const std::vector<int32_t>& ids = kFewTokens) {
  return Judge(problem, answer, ids, is_cut).verdict;
}

TEST(QaProblem, EveryAnswerHasOneVerdict) {
  const QaProblem math = Problem(QaMetric::kMath, {"204"});
  EXPECT_EQ(VerdictOf(math, R"(\boxed{204})"), Verdict::kRight);
  EXPECT_EQ(VerdictOf(math, R"(\boxed{205})"), Verdict::kWrong);
  EXPECT_EQ(VerdictOf(math, "it is 204"), Verdict::kNone);
  EXPECT_EQ(VerdictOf(math, "it is", /*is_cut=*/true), Verdict::kTruncated);
  EXPECT_EQ(VerdictOf(math, "it is", /*is_cut=*/true, Looping(11)), Verdict::kLooping);
  EXPECT_EQ(VerdictOf(math, R"(\boxed{204} wait)", /*is_cut=*/true), Verdict::kTruncated) << "it had not finished";
  EXPECT_EQ(Judge(math, R"(\boxed{204} wait)", kFewTokens, true).score, 0);
}

TEST(QaProblem, ANumberCountsAlsoWhereTheModelGoesOnWithAQuestionOfItsOwn) {
  const QaProblem problem = Problem(QaMetric::kNumber, {"3 + 15\n#### 18"});
  EXPECT_EQ(VerdictOf(problem, " 3 + 15 = $18.00.\n\nQuestion: 5 apples", /*is_cut=*/true), Verdict::kRight);
  EXPECT_EQ(VerdictOf(problem, " 3 + 15 = 19", /*is_cut=*/true), Verdict::kWrong);
  EXPECT_EQ(VerdictOf(problem, " 1 1 1", /*is_cut=*/true, Looping(2)), Verdict::kLooping);
  EXPECT_EQ(VerdictOf(problem, ""), Verdict::kNone);
}

TEST(QaProblem, TheBestReferenceCounts) {
  const QaProblem problem = Problem(QaMetric::kTokenF1, {"Paris", "the city of Paris"});
  EXPECT_EQ(Judge(problem, "paris!", kFewTokens, false).score, 1);
  EXPECT_EQ(VerdictOf(problem, "Paris, France"), Verdict::kRight);
  EXPECT_EQ(VerdictOf(problem, "Lyon"), Verdict::kWrong);
  EXPECT_EQ(VerdictOf(Problem(QaMetric::kFirstLineF1, {"Paris"}), "\nLyon\nParis"), Verdict::kWrong);
  EXPECT_EQ(VerdictOf(Problem(QaMetric::kStated, {"(B)"}), "So the answer is (b).\nQ: next"), Verdict::kRight);
  EXPECT_EQ(VerdictOf(Problem(QaMetric::kLetter, {"C"}), "Answer: C"), Verdict::kRight);
  EXPECT_EQ(VerdictOf(Problem(QaMetric::kEdit, {"return x"}), "# so\nreturn x\ny"), Verdict::kRight);
}

TEST(QaProblem, ALoopIsAPieceThatComesFourTimesOrMore) {
  EXPECT_TRUE(IsLooping(Looping(1)));
  EXPECT_TRUE(IsLooping(Looping(128)));
  EXPECT_FALSE(IsLooping(Looping(129)));
  EXPECT_FALSE(IsLooping({}));
  EXPECT_FALSE(IsLooping(std::vector<int32_t>(31, 5)));
  std::vector<int32_t> ended = Looping(4);
  ended.push_back(99);
  EXPECT_FALSE(IsLooping(ended));
}

Result<std::vector<QaProblem>> Read(const std::string& content, QaFormat format = QaFormat::kAuto) {
  return ReadQaProblems("p.jsonl", content, format, 1);
}

TEST(QaData, FormatsAreTakenFromTheirFields) {
  const auto gsm8k = Read("\n{\"question\": \"1+1?\", \"answer\": \"1+1=2\\n#### 2\"}\n");
  ASSERT_TRUE(gsm8k.ok()) << gsm8k.status().message();
  EXPECT_EQ(gsm8k->front().question, "Question: 1+1?\nAnswer:");
  EXPECT_EQ(gsm8k->front().where, "p.jsonl line 2");
  const auto aime = Read(R"({"id": 60, "problem": "Find $x$.", "answer": 204, "more": [[1]]})");
  ASSERT_TRUE(aime.ok()) << aime.status().message();
  EXPECT_EQ(aime->front().metric, QaMetric::kMath);
  EXPECT_THAT(aime->front().references, ElementsAre("204"));
  const auto bbh = Read("{\"input\": \"not ( True )\", \"target\": \"False\"}");
  ASSERT_TRUE(bbh.ok()) << bbh.status().message();
  EXPECT_EQ(bbh->front().metric, QaMetric::kStated);
  const auto bench = Read(
      R"({"dataset": "trec_e", "context": "c", "input": "i", "answers": ["Date"], "all_classes": ["Date", "City"]})");
  ASSERT_TRUE(bench.ok()) << bench.status().message();
  EXPECT_EQ(bench->front().metric, QaMetric::kFirstLineClassName);
  EXPECT_THAT(bench->front().classes, ElementsAre("Date", "City"));
  EXPECT_THAT(bench->front().context, HasSubstr("c"));
}

TEST(QaData, ChoicesAreShuffledWithTheirAnswer) {
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += R"({"Question": "q", "Correct Answer": "right", "Incorrect Answer 1": "w1", "Incorrect Answer 2": "w2",)"
             R"( "Incorrect Answer 3": "w3"})"
             "\n";
  }
  const auto problems = Read(lines);
  ASSERT_TRUE(problems.ok()) << problems.status().message();
  std::set<std::string> letters;
  for (const QaProblem& problem : *problems) {
    EXPECT_THAT(problem.question, HasSubstr("(" + problem.references.front() + ") right"));
    letters.insert(problem.references.front());
  }
  EXPECT_EQ(letters.size(), 4u);
  const auto by_text = Read(R"({"question": "q", "choices": ["x", "y", "z"], "answer": "y"})");
  const auto by_number = Read(R"({"question": "q", "choices": ["x", "y", "z"], "answer": 2})");
  ASSERT_TRUE(by_text.ok() && by_number.ok());
  EXPECT_THAT(by_text->front().references, ElementsAre("B"));
  EXPECT_THAT(by_number->front().references, ElementsAre("C"));
}

TEST(QaData, WhatIsWrongIsNamedWithItsLine) {
  const auto refused = [](const std::string& content, QaFormat format, const std::string& part) {
    const auto problems = Read(content, format);
    ASSERT_FALSE(problems.ok()) << content;
    EXPECT_EQ(problems.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(problems.status().message(), HasSubstr(part)) << content;
  };
  const std::string good = "{\"question\": \"q\", \"answer\": \"#### 1\"}\n";
  refused(good + "{\"question\"", QaFormat::kAuto, "p.jsonl line 2: not valid JSON");
  refused(good + "[1]", QaFormat::kAuto, "line 2: expected a JSON object");
  refused(good + "{\"question\": \"q\"}", QaFormat::kAuto, "line 2: expected the field \"answer\"");
  refused(good + "{\"question\": \"q\", \"answer\": \"none\"}", QaFormat::kGsm8k, "expected a number");
  refused("{\"question\": 1.5, \"answer\": \"2\"}", QaFormat::kAime, "field \"question\": expected text");
  refused("{\"question\": \" \", \"answer\": \"2\"}", QaFormat::kAime, "field \"question\": expected text");
  refused("{\"a\": 1}", QaFormat::kAuto, "no known format");
  refused("\n \n", QaFormat::kAuto, "expected a problem a line");
  refused(R"({"dataset": "nothing", "context": "c", "answers": ["a"]})", QaFormat::kAuto, "narrativeqa");
  refused(R"({"dataset": "qasper", "context": "c", "answers": []})", QaFormat::kAuto, "one or more");
  refused(R"({"dataset": "qasper", "context": "c", "answers": "a"})", QaFormat::kAuto, "array of texts");
  refused(R"({"question": "q", "choices": ["x", "y"], "answer": "C"})", QaFormat::kAuto, "one of 2 choices");
  refused("{\"a\": " + std::string(100, '[') + std::string(100, ']') + "}", QaFormat::kAuto, "levels deep");
}

TEST(QaData, ExamplesAreSolvedProblems) {
  const std::string content = "{\"question\": \"q\", \"answer\": \"a\\n#### 1\"}\n";
  EXPECT_EQ(ReadQaExamples("e.jsonl", content + content, QaFormat::kAuto, 1).value(),
            "Question: q\nAnswer: a\n#### 1\n\n");
  const auto few = ReadQaExamples("e.jsonl", content, QaFormat::kAuto, 2);
  ASSERT_FALSE(few.ok());
  EXPECT_THAT(few.status().message(), HasSubstr("expected 2 examples, found 1"));
}

}  // namespace
}  // namespace winnow
