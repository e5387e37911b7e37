// LongBench's tasks: metrics and answer lengths as in the original (Bai et al., arXiv 2308.14508); the words around
// context and question are shorter ones of our own. Immutable; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "eval/qa_problem.h"

namespace winnow {

struct LongBenchTask {
  std::string_view dataset;
  QaMetric metric;
  int64_t max_new_tokens;
  // A prompt is before + context, then instruction + ask + input + cue; ask is left out where there is no input.
  std::string_view before, instruction, ask, cue;
};

// The English tasks and those scored as they are; a name ending in _e (LongBench-E) is its task without it.
// InvalidArgument naming the known ones.
Result<const LongBenchTask*> FindLongBenchTask(std::string_view dataset);

}  // namespace winnow
