#include "eval/qa_documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "eval/ruler_tasks.h"

namespace winnow {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

const char* const kSquad = R"({"data": [
  {"paragraphs": [
    {"context": "Rome is old.", "qas": [{"question": "What is old?", "answers": [{"text": "Rome"}, {"text": "Rome"}]},
                                        {"question": "Unanswerable?", "answers": [], "is_impossible": true}]},
    {"context": "Milan is large.", "qas": []}]},
  {"paragraphs": [{"context": "Lyon lies in France.", "qas": []}]}]})";
const char* const kHotpot = R"([{"_id": "1", "question": "Who?", "answer": "Ada",
  "context": [["Ada", ["Ada wrote. ", "She did."]], ["Bob", ["Bob slept."]]]}])";

TEST(QaDocuments, SquadQuestionsKeepTheirParagraphsApartFromOthers) {
  const auto squad = ParseSquad("s.json", kSquad);
  ASSERT_TRUE(squad.ok()) << squad.status().message();
  ASSERT_EQ(squad->questions.size(), 1u);
  const QaDocuments::Question& question = squad->questions.front();
  EXPECT_THAT(question.answers, ::testing::ElementsAre("Rome"));
  EXPECT_EQ(squad->documents[size_t(question.documents.front())], "Rome is old.");
  ASSERT_EQ(question.distractors.size(), 1u);
  EXPECT_EQ(squad->documents[size_t(question.distractors.front())], "Milan is large.");
}

TEST(QaDocuments, ATaskShowsTheParagraphOfItsQuestionAmongOthers) {
  const auto squad = ParseSquad("s.json", kSquad);
  const Haystack haystack;
  const RulerInput input{.seed = 1, .length = 512, .haystack = &haystack, .qa = &*squad};
  const RulerTask& task = *FindRulerTask("qa_1").value();
  const RulerSample alone = MakeRulerSample(task, input, 0, 0), all = MakeRulerSample(task, input, 0, 9);
  EXPECT_THAT(alone.context, HasSubstr("Document 1:\nRome is old."));
  EXPECT_EQ(alone.context.find("Milan"), std::string::npos);
  for (const char* text : {"Rome", "Milan", "Lyon", "Document 3:"}) EXPECT_THAT(all.context, HasSubstr(text));
  EXPECT_THAT(all.question, HasSubstr("Question: What is old?"));
}

TEST(QaDocuments, HotpotQuestionsHaveAllTheirParagraphs) {
  const auto hotpot = ParseHotpotQa("h.json", kHotpot);
  ASSERT_TRUE(hotpot.ok()) << hotpot.status().message();
  EXPECT_THAT(hotpot->documents, UnorderedElementsAre("Ada\nAda wrote. She did.", "Bob\nBob slept."));
  EXPECT_EQ(hotpot->questions.front().documents.size(), 2u);
}

TEST(QaDocuments, WhatIsNoSuchFileIsRefusedByName) {
  const auto refuse = [](const auto& parsed, const std::string& part) {
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(parsed.status().message(), HasSubstr(part));
  };
  refuse(ParseSquad("s.json", "{"), "s.json: not valid JSON");
  refuse(ParseSquad("s.json", "[]"), "expected a SQuAD file");
  refuse(ParseSquad("s.json", R"({"data": []})"), "found none");
  refuse(ParseSquad("s.json", R"({"data": [{"paragraphs": [{"qas": []}]}]})"),
         "article 1: expected a text \"context\"");
  refuse(ParseSquad("s.json", std::string(1000, '[') + std::string(1000, ']')), "levels deep");
  refuse(ParseHotpotQa("h.json", kSquad), "expected a HotpotQA file");
  refuse(ParseHotpotQa("h.json", R"([{"question": "q", "answer": "a", "context": [["t"]]}])"),
         "question 1: expected [title");
}

}  // namespace
}  // namespace winnow
