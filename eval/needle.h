// One needle in a haystack (Kamradt, "Needle In A Haystack", 2023), as kvpress frames it: a sentence with a number of
// seven digits somewhere in a "story book". A function of (seed, sample, depth, length); any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "eval/haystack.h"

namespace winnow {

inline constexpr int64_t kNeedleAnswerTokens = 32;

struct NeedleSample {
  std::string context, question;
  std::string needle;  // the sentence
  std::string number;  // what is asked for
};

// The needle stands at the end of a sentence of the haystack: the first one that ends at `depth_percent` of its
// characters or later; 0: before all of them, 100: after all.
NeedleSample MakeNeedleSample(const Haystack& haystack, uint64_t seed, int64_t sample, int64_t depth_percent,
                              int64_t sentences);

// The largest one of at most `length` tokens, the answer included. InvalidArgument naming the tokens that the smallest
// one needs.
Result<NeedleSample> FitNeedleSample(const Haystack& haystack, uint64_t seed, int64_t sample, int64_t depth_percent,
                                     int64_t length,
                                     const std::function<Result<int64_t>(const NeedleSample&)>& count_tokens);

}  // namespace winnow
