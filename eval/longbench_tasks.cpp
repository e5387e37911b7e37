#include "eval/longbench_tasks.h"

#include <string>

namespace winnow {
namespace {

constexpr std::string_view kRead = "Read the following text.\n\n", kExamples = "Here are some examples.\n\n";
constexpr std::string_view kShort =
    "Answer the question about the text above as concisely as you can, and write nothing else.\n\n";
constexpr std::string_view kSummary = "Write a one-page summary of the text above.";

constexpr LongBenchTask kTasks[] = {
    {"narrativeqa", QaMetric::kTokenF1, 128, kRead, kShort, "Question: ", "\nAnswer:"},
    {"qasper", QaMetric::kTokenF1, 128, kRead, kShort, "Question: ", "\nAnswer:"},
    {"multifieldqa_en", QaMetric::kTokenF1, 64, kRead, kShort, "Question: ", "\nAnswer:"},
    {"hotpotqa", QaMetric::kTokenF1, 32, kRead, kShort, "Question: ", "\nAnswer:"},
    {"2wikimqa", QaMetric::kTokenF1, 32, kRead, kShort, "Question: ", "\nAnswer:"},
    {"musique", QaMetric::kTokenF1, 32, kRead, kShort, "Question: ", "\nAnswer:"},
    {"gov_report", QaMetric::kRougeL, 512, kRead, kSummary, "", "\n\nSummary:"},
    {"qmsum", QaMetric::kRougeL, 512, kRead,
     "Answer the question about the meeting above in one or more sentences.\n\n", "Question: ", "\nAnswer:"},
    {"multi_news", QaMetric::kRougeL, 512, kRead, kSummary, "", "\n\nSummary:"},
    {"trec", QaMetric::kFirstLineClassName, 64, kExamples, "", "", ""},
    {"triviaqa", QaMetric::kFirstLineF1, 32, kExamples, "", "", ""},
    {"samsum", QaMetric::kFirstLineRougeL, 128, kExamples, "", "", ""},
    {"passage_count", QaMetric::kNumberShare, 32, kRead,
     "Some of the paragraphs above are duplicates. How many different ones are there? Write only the number.", "",
     "\n\nThe final answer is:"},
    {"passage_retrieval_en", QaMetric::kNumberShare, 32, kRead,
     "Which of the paragraphs above is the following abstract from? Write it as \"Paragraph 1\".\n\n", "",
     "\n\nThe answer is:"},
    {"lcc", QaMetric::kEdit, 64, "Complete the code below.\n\n", "", "", "Next line of code:\n"},
    {"repobench-p", QaMetric::kEdit, 64, "Complete the code below.\n\n", "", "", "Next line of code:\n"},
};

}  // namespace

Result<const LongBenchTask*> FindLongBenchTask(std::string_view dataset) {
  std::string_view name = dataset;
  if (name.ends_with("_e")) name.remove_suffix(2);
  std::string known;
  for (const LongBenchTask& task : kTasks) {
    if (task.dataset == name) return &task;
    known += (known.empty() ? "" : ", ") + std::string(task.dataset);
  }
  return InvalidArgument("field \"dataset\": expected one of " + known + ", found \"" + std::string(dataset) + "\"");
}

}  // namespace winnow
