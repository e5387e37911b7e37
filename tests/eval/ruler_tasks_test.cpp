#include "eval/ruler_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "eval/text_scores.h"
#include "eval/text_words.h"

namespace winnow {
namespace {

using ::testing::HasSubstr;

const Haystack kGenerated;

RulerInput Input(int64_t length = 4096) {
  return {.seed = 7, .length = length, .haystack = &kGenerated, .qa = nullptr};
}

const RulerTask& Task(const std::string& name) {
  return *FindRulerTask(name).value();
}

// A word is a token.
Result<int64_t> CountWords(const RulerSample& sample) {
  return int64_t(Words(sample.context + sample.question + sample.answer_prefix).size());
}

std::string Whole(const RulerSample& sample) {
  return sample.context + sample.question + sample.answer_prefix;
}

int64_t Count(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(RulerTasks, ThereAreThirteenWithTheAnswersOfThePaper) {
  std::map<std::string, size_t> answers;
  for (const RulerTask& task : RulerTasks()) {
    if (NeedsQaFile(task)) continue;
    answers[std::string(task.name)] = MakeRulerSample(task, Input(), 0, 200).answers.size();
  }
  EXPECT_EQ(RulerTasks().size(), 13u);
  EXPECT_EQ(answers, (std::map<std::string, size_t>{{"niah_single_1", 1},
                                                    {"niah_single_2", 1},
                                                    {"niah_single_3", 1},
                                                    {"niah_multikey_1", 1},
                                                    {"niah_multikey_2", 1},
                                                    {"niah_multikey_3", 1},
                                                    {"niah_multivalue", 4},
                                                    {"niah_multiquery", 4},
                                                    {"vt", 5},
                                                    {"cwe", 10},
                                                    {"fwe", 3}}));
}

TEST(RulerTasks, ASampleIsTheSameAgainAndOthersDiffer) {
  for (const RulerTask& task : RulerTasks()) {
    if (NeedsQaFile(task)) continue;
    const std::string first = Whole(MakeRulerSample(task, Input(), 3, 160));
    EXPECT_EQ(first, Whole(MakeRulerSample(task, Input(), 3, 160)));
    EXPECT_NE(first, Whole(MakeRulerSample(task, Input(), 4, 160)));
    RulerInput other = Input();
    other.seed = 8;
    EXPECT_NE(first, Whole(MakeRulerSample(task, other, 3, 160)));
  }
}

TEST(RulerTasks, AnswersStandInTheContextAndNowhereElse) {
  for (const RulerTask& task : RulerTasks()) {
    if (NeedsQaFile(task)) continue;
    for (int64_t i = 0; i < 4; ++i) {
      const RulerSample sample = MakeRulerSample(task, Input(), i, 160);
      EXPECT_EQ(StringMatchAll(sample.context, sample.answers), 1) << task.name;
      EXPECT_EQ(StringMatchAll(sample.question + sample.answer_prefix, sample.answers), 0) << task.name;
    }
  }
}

TEST(RulerTasks, ALongerSampleAsksForTheSame) {
  for (const RulerTask& task : RulerTasks()) {
    if (NeedsQaFile(task)) continue;
    const RulerSample small = MakeRulerSample(task, Input(), 1, 160), large = MakeRulerSample(task, Input(), 1, 300);
    EXPECT_EQ(small.question, large.question);
    EXPECT_EQ(small.answers, large.answers);
    EXPECT_LT(small.context.size(), large.context.size());
  }
}

TEST(RulerTasks, OneNeedleIsAskedForInTheSingular) {
  const RulerSample one = MakeRulerSample(Task("niah_single_3"), Input(), 0, 20);
  EXPECT_THAT(one.context, HasSubstr("A special magic uuid is hidden"));
  EXPECT_THAT(one.answer_prefix, ::testing::EndsWith(" mentioned in the provided text is"));
  const RulerSample four = MakeRulerSample(Task("niah_multiquery"), Input(), 0, 20);
  EXPECT_THAT(four.context, HasSubstr("Some special magic numbers are hidden"));
  EXPECT_EQ(Count(four.question, ", "), 3);
  EXPECT_EQ(Count(four.context, "One of the special magic numbers for "), 4);
}

TEST(RulerTasks, AHaystackOfNeedlesHasTheKeyOnce) {
  const RulerSample sample = MakeRulerSample(Task("niah_multikey_2"), Input(), 2, 500);
  EXPECT_EQ(Count(sample.context, "One of the special magic numbers for "), 501);
  const size_t begin = sample.question.find(" for ") + 5;
  const std::string key = sample.question.substr(begin, sample.question.find(" mentioned") - begin);
  EXPECT_EQ(Count(sample.context, " " + key + " is: "), 1);
}

TEST(RulerTasks, AChainIsFollowedFromItsValue) {
  const RulerSample sample = MakeRulerSample(Task("vt"), Input(), 0, 50);
  const std::string text = sample.context.substr(sample.context.rfind("Memorize"));
  size_t at = 0;
  for (size_t i = 0; i < sample.answers.size(); ++i) {
    const std::string line = "VAR " + sample.answers[i] + " = " + (i == 0 ? "" : "VAR " + sample.answers[i - 1]);
    const size_t next = text.find(line);
    ASSERT_NE(next, std::string::npos) << line;
    EXPECT_GE(next, at);
    at = next;
  }
}

TEST(RulerTasks, CommonWordsAreTheMostCommonOnes) {
  for (int64_t length : {1024, 4096}) {
    const RulerSample sample = MakeRulerSample(Task("cwe"), Input(length), 0, 600);
    const std::string asked = sample.context.substr(sample.context.rfind("Below is"));
    const std::string list = asked.substr(asked.find('\n'));
    std::map<std::string, int64_t> counts;
    for (std::string_view word : Words(list)) ++counts[std::string(word)];
    for (const std::string& answer : sample.answers) EXPECT_EQ(counts[answer], length < 4096 ? 6 : 30) << answer;
    int64_t words = 0, common = 0;
    for (const auto& [word, count] : counts) {
      words += count == (length < 4096 ? 1 : 3);
      common += count >= (length < 4096 ? 6 : 30);
    }
    EXPECT_EQ(common, 10);
    EXPECT_GE(words, 590);  // with 1,024 tokens the numbers of the list too
  }
}

TEST(RulerTasks, FrequentWordsComeInTheOrderOfTheirCounts) {
  const RulerSample sample = MakeRulerSample(Task("fwe"), Input(), 0, 150);
  std::map<std::string, int64_t> counts;
  for (std::string_view word : Words(sample.context)) ++counts[std::string(word)];
  const std::set<std::string> answers(sample.answers.begin(), sample.answers.end());
  EXPECT_GT(counts[sample.answers[0]], counts[sample.answers[1]]);
  EXPECT_GT(counts[sample.answers[1]], counts[sample.answers[2]]);
  EXPECT_GT(counts["..."], counts[sample.answers[0]]);
  for (const auto& [word, count] : counts) {
    const bool is_coded = word.size() == 6 && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == word.npos;
    if (!is_coded || answers.contains(word)) continue;
    EXPECT_LT(count, counts[sample.answers[2]]) << word;
  }
}

TEST(RulerTasks, TheLargestSampleThatFitsIsMade) {
  for (const RulerTask& task : RulerTasks()) {
    if (NeedsQaFile(task)) continue;
    const auto sample = FitRulerSample(task, Input(1024), 0, CountWords);
    ASSERT_TRUE(sample.ok()) << sample.status().message();
    const int64_t tokens = CountWords(*sample).value() + task.max_new_tokens;
    EXPECT_LE(tokens, 1024) << task.name;
    EXPECT_GT(tokens, 1024 - 40) << task.name;
  }
}

TEST(RulerTasks, WhatDoesNotFitAndWhatIsUnknownIsRefused) {
  const auto small = FitRulerSample(Task("vt"), Input(100), 0, CountWords);
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(small.status().message(), HasSubstr("--length 100"));
  const auto unknown = FindRulerTask("niah");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.status().message(), HasSubstr("niah_single_1"));
}

TEST(Haystack, AUsersTextIsCutAtSentencesAndBeginsAgain) {
  const Haystack haystack = Haystack::FromText("One. Two!  Three 3.5 km?\n\n  Four \n");
  EXPECT_EQ(haystack.Sentences(1, 2, 5), (std::vector<std::string>{"One.", "Two!", "Three 3.5 km?", "Four", "One."}));
  EXPECT_TRUE(Haystack::FromText(" \n ").is_generated());
}

TEST(Haystack, GeneratedSentencesHaveNoEmptyPlaces) {
  for (const std::string& sentence : kGenerated.Sentences(1, 1, 500)) {
    EXPECT_EQ(sentence.find_first_of("{}"), std::string::npos) << sentence;
    EXPECT_EQ(sentence.back(), '.');
    EXPECT_TRUE(sentence[0] >= 'A' && sentence[0] <= 'Z') << sentence;
    EXPECT_EQ(sentence.find(" a a"), std::string::npos) << sentence;
  }
}

}  // namespace
}  // namespace winnow
