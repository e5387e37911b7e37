// The synthetic tasks of RULER (Hsieh et al., "RULER: What's the Real Context Size of Your Long-Context Language
// Models?", arXiv 2404.06654), made from a seed: prompts, answers and lengths as in its generator, words and prose our
// own. A sample is a function of (seed, task, number of the sample, length, tokenizer). Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "eval/haystack.h"
#include "eval/qa_documents.h"

namespace winnow {

struct RulerTask {
  std::string_view name;
  int64_t max_new_tokens;
  bool any_reference;  // one of the answers suffices (qa_*); otherwise the share of answers found counts
};

// All thirteen, in the paper's order.
std::span<const RulerTask> RulerTasks();
// InvalidArgument naming the tasks.
Result<const RulerTask*> FindRulerTask(std::string_view name);

// Whether the task needs a file of the user (qa_1: SQuAD, qa_2: HotpotQA).
bool NeedsQaFile(const RulerTask& task);

struct RulerSample {
  std::string context;        // what a policy compresses without having seen the question
  std::string question;       // what follows it
  std::string answer_prefix;  // the beginning of the answer
  std::vector<std::string> answers;
};

struct RulerInput {
  uint64_t seed = 0;
  int64_t length = 4096;  // tokens of context, question, prefix and answer at most
  const Haystack* haystack = nullptr;
  const QaDocuments* qa = nullptr;  // for qa_*
};

// A sample whose haystack has `units` parts: sentences, lines, words or documents, as the task has them. A larger
// sample asks for the same things. units >= LeastUnits(task).
RulerSample MakeRulerSample(const RulerTask& task, const RulerInput& input, int64_t sample, int64_t units);
int64_t LeastUnits(const RulerTask& task);

// The largest sample that fits into input.length tokens together with the task's answer. InvalidArgument naming the
// tokens that the smallest one needs.
using CountTokens = std::function<Result<int64_t>(const RulerSample&)>;
Result<RulerSample> FitRulerSample(const RulerTask& task, const RulerInput& input, int64_t sample,
                                   const CountTokens& count_tokens);

}  // namespace winnow
