// Problems with known answers: what is asked, and how an answer is judged. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace winnow {

enum class QaMetric {
  kNumber,              // GSM8K: the final number
  kMath,                // AIME: the last \boxed{}, in one form
  kLetter,              // GPQA: the choice
  kStated,              // BBH: what follows "the answer is"
  kTokenF1,             // LongBench from here on
  kFirstLineF1,         // triviaqa
  kRougeL,              //
  kFirstLineRougeL,     // samsum
  kFirstLineClassName,  // trec, lsht
  kNumberShare,         // passage_count, passage_retrieval_en
  kEdit,                // lcc, repobench-p
};
std::string_view Name(QaMetric metric);  // "number", "math", "letter", ...

struct QaProblem {
  std::string where;  // "gsm8k.jsonl line 3"
  std::string task;   // "gsm8k", "qasper": the row it counts in
  QaMetric metric = QaMetric::kNumber;
  std::string context;   // examples or documents: what is compressed; empty: all of it
  std::string question;  // the rest of the prompt
  std::vector<std::string> references;
  std::vector<std::string> classes;  // of kFirstLineClassName
  int64_t num_choices = 4;           // of kLetter
  int64_t max_new_tokens = 512;
};

// How an answer ended up in the error table.
enum class Verdict { kRight, kWrong, kLooping, kTruncated, kNone };
std::string_view Name(Verdict verdict);  // "right", "wrong", "looping", "truncated", "none"

struct Judgement {
  double score = 0;                      // 0 to 1, the best over the references
  std::optional<std::string> extracted;  // none: no answer was found in the text
  Verdict verdict = Verdict::kNone;
};

// is_cut: the answer ended because its tokens were used up. An answer to kMath or kLetter that was cut is not right,
// whatever stands in it: the model had not made up its mind. Right: a score of 1 (of 0.5 or more where the metric is
// not all or nothing).
Judgement Judge(const QaProblem& problem, std::string_view answer, const std::vector<int32_t>& token_ids, bool is_cut);

// Whether the last tokens repeat a piece of at most 128 tokens, 4 times or more and over 32 tokens or more.
bool IsLooping(const std::vector<int32_t>& token_ids);

}  // namespace winnow
