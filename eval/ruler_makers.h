// The generators behind MakeRulerSample, one a kind of task. For eval/ruler_tasks.cpp alone. `task` numbers the task's
// random streams. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/random_stream.h"
#include "eval/ruler_tasks.h"

namespace winnow {

struct NeedleKind {
  enum class Hay { kNoise, kEssay, kNeedles };
  enum class Value { kNumber, kUuid };

  Hay hay;
  bool uuid_keys;  // otherwise adjective-noun
  Value value;
  int64_t keys, values_per_key, queries;
};

// The sentence that RULER repeats as noise.
inline constexpr std::string_view kNoiseSentence =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

// "a, b, and c"
std::string JoinNames(const std::vector<std::string>& names);

// units: noise lines, sentences or needles of the haystack.
RulerSample MakeNeedles(const NeedleKind& kind, const RulerInput& input, uint32_t task, uint32_t sample, int64_t units);
// units: noise lines.
RulerSample MakeVariableTracking(const RulerInput& input, uint32_t task, uint32_t sample, int64_t units);
// units: different words of the list, more than 10.
RulerSample MakeCommonWords(const RulerInput& input, uint32_t task, uint32_t sample, int64_t units);
// units: words of the text, about.
RulerSample MakeFrequentWords(const RulerInput& input, uint32_t task, uint32_t sample, int64_t units);
// units: documents beyond those of the question.
RulerSample MakeQa(const RulerInput& input, uint32_t task, uint32_t sample, int64_t units);

}  // namespace winnow
