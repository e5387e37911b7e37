#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "launch/eval_task_options.h"
#include "launch/eval_task_rows.h"
#include "tests/support/temporary_path.h"

namespace winnow {
namespace {

using ::testing::HasSubstr;

EvalTaskOptions Options() {
  EvalTaskOptions options;
  options.policies = {"streaming-llm", "snapkv-prefill"};
  options.budgets = {64};
  return options;
}

EvalAnswer Answer(int64_t kept, int64_t evictions) {
  EvalAnswer answer;
  answer.text = "caf\xc3\xa9 \xff";
  answer.token_ids = {1, 2};
  answer.kv.evictions = evictions;
  answer.kv.kept_entries = kept;
  answer.kv.evicted_entries = 100 - kept;
  answer.kv.full_entries = 100;
  return answer;
}

TEST(EvalTaskOptions, TheFullCacheIsTheFirstCaseThenBudgetsThenRatios) {
  EvalTaskOptions options = Options();
  options.ratios = {0.25};
  std::vector<std::string> cases;
  for (const EvalCase& one : CasesOf(options)) cases.push_back(one.policy + " " + one.BudgetText());
  EXPECT_EQ(cases, (std::vector<std::string>{"full -", "streaming-llm 64", "snapkv-prefill 64", "streaming-llm 0.25",
                                             "snapkv-prefill 0.25"}));
  const EvictionSettings asked = CasesOf(options).back().Asked(options.eviction);
  EXPECT_EQ(asked.policy, "snapkv-prefill");
  EXPECT_EQ(asked.budget_ratio, 0.25);
  EXPECT_EQ(asked.budget, 0);
}

TEST(EvalTaskOptions, WhatMeansNothingIsRefused) {
  const auto refused = [](const EvalTaskOptions& options, const std::string& part) {
    const Status status = CheckEvalTaskOptions(options, 1);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(part));
  };
  EXPECT_TRUE(CheckEvalTaskOptions(Options(), 1).ok());
  EvalTaskOptions options = Options();
  options.policies = {"snapkv", "snapkv"};
  refused(options, "given twice");
  options.policies = {"full"};
  refused(options, "never evicts");
  options = Options();
  options.budgets = {0};
  refused(options, "--kv-budget");
  options.budgets.clear();
  options.ratios = {1.0};
  refused(options, "--kv-ratio");
  options = Options();
  options.max_num_seqs = 0;
  refused(options, "--max-num-seqs");
  options = Options();
  options.max_new_tokens = 0;
  refused(options, "--max-tokens");
}

TEST(EvalTaskRows, APolicyThatNeverEvictedHasNoRow) {
  const std::vector<EvalAnswer> never = {Answer(100, 0), Answer(100, 0)}, once = {Answer(100, 0), Answer(40, 2)};
  const EvalCase policy{"snapkv", 64, 0}, full;
  EXPECT_THAT(ReasonToRefuse(policy, never).value_or(""), HasSubstr("2 answer(s)"));
  EXPECT_EQ(ReasonToRefuse(policy, once), std::nullopt);
  EXPECT_EQ(ReasonToRefuse(full, never), std::nullopt);
}

TEST(EvalTaskRows, CachesAreSummedUp) {
  std::vector<EvalAnswer> answers = {Answer(100, 0), Answer(40, 2)};
  answers[1].kv.peak_bytes_per_rank = {3, 4};
  const ResultJson json = CacheJson(answers);
  EXPECT_EQ(json["kept_ratio"], 0.7);
  EXPECT_EQ(json["evicted_entries"], 60);
  EXPECT_EQ(json["evictions_per_answer"], 1.0);
  EXPECT_EQ(json["answers_without_eviction"], 1);
  EXPECT_EQ(json["peak_bytes"], 7);
}

TEST(EvalTaskRows, OtherPromptsHaveAnotherHash) {
  EvalPrompt prompt;
  prompt.tokens = {1, 2, 3};
  prompt.compressed_tokens = 2;
  const ResultJson json = PromptsJson({prompt, prompt});
  EXPECT_EQ(json["count"], 2);
  EXPECT_EQ(json["tokens"], 6);
  EXPECT_EQ(PromptsJson({prompt, prompt}), json);
  EvalPrompt other = prompt;
  other.tokens[1] = 4;
  EXPECT_NE(PromptsJson({prompt, other})["hash"], json["hash"]);
  other = prompt;
  other.compressed_tokens = 3;
  EXPECT_NE(PromptsJson({prompt, other})["hash"], json["hash"]);
}

TEST(EvalTaskRows, EveryAnswerIsALineWhateverItsBytes) {
  const std::string path = TemporaryPath("answers.jsonl").string();
  EvalPrompt prompt;
  prompt.where = "vt, sample 0";
  std::vector<CaseAnswers> cases(2);
  cases[1].asked = {"snapkv", 64, 0};
  for (CaseAnswers& one : cases) one.answers = {Answer(50, 1)};
  ASSERT_TRUE(WriteAnswers(path, {prompt}, cases).ok());
  std::ifstream file(path);
  std::vector<ResultJson> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(ResultJson::parse(line));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["budget"], nullptr);
  EXPECT_EQ(lines[1]["budget"], 64);
  EXPECT_EQ(lines[1]["prompt"], "vt, sample 0");
  EXPECT_EQ(lines[1]["tokens"], 2);
  EXPECT_THAT(lines[1]["text"].get<std::string>(), HasSubstr("caf\xc3\xa9"));
  EXPECT_EQ(WriteAnswers("/nowhere/at/all.jsonl", {prompt}, cases).code(), StatusCode::kBadFile);
}

}  // namespace
}  // namespace winnow
