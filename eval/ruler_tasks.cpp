#include "eval/ruler_tasks.h"

#include <algorithm>

#include "base/check.h"
#include "eval/fit_length.h"
#include "eval/ruler_makers.h"

namespace winnow {
namespace {

using Hay = NeedleKind::Hay;
using Value = NeedleKind::Value;

// RULER's synthetic.yaml and constants.py.
constexpr RulerTask kTasks[] = {
    {"niah_single_1", 128, false},
    {"niah_single_2", 128, false},
    {"niah_single_3", 128, false},
    {"niah_multikey_1", 128, false},
    {"niah_multikey_2", 128, false},
    {"niah_multikey_3", 128, false},
    {"niah_multivalue", 128, false},
    {"niah_multiquery", 128, false},
    {"vt", 30, false},
    {"cwe", 120, false},
    {"fwe", 50, false},
    {"qa_1", 32, true},
    {"qa_2", 32, true},
};

// Of the tasks whose names begin with niah, in order: hay, UUIDs as keys, values, keys, values a key, queries.
constexpr NeedleKind kNeedleKinds[] = {
    {Hay::kNoise, false, Value::kNumber, 1, 1, 1},   {Hay::kEssay, false, Value::kNumber, 1, 1, 1},
    {Hay::kEssay, false, Value::kUuid, 1, 1, 1},     {Hay::kEssay, false, Value::kNumber, 4, 1, 1},
    {Hay::kNeedles, false, Value::kNumber, 1, 1, 1}, {Hay::kNeedles, true, Value::kUuid, 1, 1, 1},
    {Hay::kEssay, false, Value::kNumber, 1, 4, 1},   {Hay::kEssay, false, Value::kNumber, 4, 1, 4},
};

size_t IndexOf(const RulerTask& task) {
  return size_t(&task - kTasks);
}

int64_t MostUnits(const RulerTask& task, const RulerInput& input) {
  // A unit of any task is a token at least, and documents are as many as there are.
  return NeedsQaFile(task) ? std::min(input.length, int64_t(input.qa->documents.size())) : input.length;
}

}  // namespace

std::span<const RulerTask> RulerTasks() {
  return kTasks;
}

Result<const RulerTask*> FindRulerTask(std::string_view name) {
  std::string known;
  for (const RulerTask& task : kTasks) {
    if (task.name == name) return &task;
    known += (known.empty() ? "" : ", ") + std::string(task.name);
  }
  return InvalidArgument("RULER task: expected one of " + known + ", found \"" + std::string(name) + "\"");
}

bool NeedsQaFile(const RulerTask& task) {
  return task.name.starts_with("qa_");
}

int64_t LeastUnits(const RulerTask& task) {
  if (task.name == "cwe") return 11;  // a word that is not common
  // Fewer, and the fourth and fifth most frequent words of the text come equally often.
  if (task.name == "fwe") return 150;
  return NeedsQaFile(task) ? 0 : 1;
}

RulerSample MakeRulerSample(const RulerTask& task, const RulerInput& input, int64_t sample, int64_t units) {
  WINNOW_CHECK(units >= LeastUnits(task));
  const size_t index = IndexOf(task);
  const uint32_t stream = uint32_t(index) + 1, number = uint32_t(sample);  // stream 0 is the haystack's
  if (index < std::size(kNeedleKinds)) return MakeNeedles(kNeedleKinds[index], input, stream, number, units);
  if (task.name == "vt") return MakeVariableTracking(input, stream, number, units);
  if (task.name == "cwe") return MakeCommonWords(input, stream, number, units);
  if (task.name == "fwe") return MakeFrequentWords(input, stream, number, units);
  return MakeQa(input, stream, number, units);
}

Result<RulerSample> FitRulerSample(const RulerTask& task, const RulerInput& input, int64_t sample,
                                   const CountTokens& count_tokens) {
  const auto count = [&](int64_t units) { return count_tokens(MakeRulerSample(task, input, sample, units)); };
  const int64_t room = input.length - task.max_new_tokens;
  WINNOW_ASSIGN_OR_RETURN(const int64_t least_tokens, count(LeastUnits(task)));
  if (least_tokens > room) {
    return InvalidArgument("task " + std::string(task.name) + ", sample " + std::to_string(sample) + ": expected " +
                           std::to_string(least_tokens + task.max_new_tokens) + " tokens or more, found --length " +
                           std::to_string(input.length));
  }
  WINNOW_ASSIGN_OR_RETURN(const int64_t most, LargestThatFits(LeastUnits(task), MostUnits(task, input), room, count));
  return MakeRulerSample(task, input, sample, most);
}

}  // namespace winnow
