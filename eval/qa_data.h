// Problem files of the user: JSON Lines in the layouts in which GSM8K, AIME, GPQA, BBH and LongBench are passed around.
// Nothing in them is trusted. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "eval/qa_problem.h"

namespace winnow {

enum class QaFormat { kAuto, kGsm8k, kAime, kGpqa, kBbh, kLongBench };
// "auto", "gsm8k", "aime", "gpqa", "bbh", "longbench".
std::string_view Name(QaFormat format);
// InvalidArgument naming the known ones.
Result<QaFormat> ParseQaFormat(std::string_view name);

// One problem a line; blank lines are skipped. Fields, others are ignored:
//   gsm8k      question, answer ("... #### 18")
//   aime       problem (or question), answer
//   gpqa       Question, Correct Answer, Incorrect Answer 1 to 3: choices in an order drawn from the seed and the line;
//              or question (or problem), choices (array), answer (letter, number from 0, or one of the choices);
//              or question (or problem) with the choices in its text, answer (letter)
//   bbh        input, target
//   longbench  input, context, answers (array), dataset, all_classes (array, for trec and lsht)
// kAuto takes the format of the first line that fits. InvalidArgument naming path, line, what was expected and found.
Result<std::vector<QaProblem>> ReadQaProblems(const std::string& path, const std::string& content, QaFormat format,
                                              uint64_t seed);

// The first `shots` problems of another file of the format as solved examples, for gsm8k (question, answer) and bbh
// (input, target, and "solution" if there is one, with "So the answer is ..." at its end). InvalidArgument if there are
// fewer.
Result<std::string> ReadQaExamples(const std::string& path, const std::string& content, QaFormat format, int64_t shots);

}  // namespace winnow
