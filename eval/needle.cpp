#include "eval/needle.h"

#include <vector>

#include "base/check.h"
#include "eval/fit_length.h"
#include "eval/random_stream.h"
#include "eval/word_lists.h"

namespace winnow {
namespace {

constexpr uint32_t kNeedleStream = 100;  // RULER's tasks have 0 to 13

}  // namespace

NeedleSample MakeNeedleSample(const Haystack& haystack, uint64_t seed, int64_t sample, int64_t depth_percent,
                              int64_t sentences) {
  WINNOW_CHECK(sentences > 0 && depth_percent >= 0 && depth_percent <= 100);
  RandomStream random(seed, kNeedleStream, uint32_t(sample), 0);
  const std::string noun(Nouns()[size_t(random.Below(int64_t(Nouns().size())))]);
  const std::string adjective(Adjectives()[size_t(random.Below(int64_t(Adjectives().size())))]);
  NeedleSample made;
  made.number = random.Digits(7);
  made.needle = "The secret number of the " + adjective + " " + noun + " is " + made.number + ".";

  const std::vector<std::string> hay = haystack.Sentences(seed, uint32_t(sample), sentences);
  int64_t total = 0, before = 0;
  for (const std::string& sentence : hay) total += int64_t(sentence.size());
  bool is_placed = false;
  std::string text;
  const auto place = [&](bool is_end) {
    if (is_placed || (!is_end && before * 100 < total * depth_percent)) return;
    text += (text.empty() ? "" : " ") + made.needle;
    is_placed = true;
  };
  for (const std::string& sentence : hay) {
    place(false);
    text += (text.empty() ? "" : " ") + sentence;
    before += int64_t(sentence.size());
  }
  place(true);
  made.context = "This is a very long story book: <book> " + text + " </book>.\n";
  made.question = "Based on the content of the book, Question: What is the secret number of the " + adjective + " " +
                  noun + "?\nAnswer:";
  return made;
}

Result<NeedleSample> FitNeedleSample(const Haystack& haystack, uint64_t seed, int64_t sample, int64_t depth_percent,
                                     int64_t length,
                                     const std::function<Result<int64_t>(const NeedleSample&)>& count_tokens) {
  const auto make = [&](int64_t sentences) {
    return MakeNeedleSample(haystack, seed, sample, depth_percent, sentences);
  };
  const auto count = [&](int64_t sentences) { return count_tokens(make(sentences)); };
  const int64_t room = length - kNeedleAnswerTokens;
  WINNOW_ASSIGN_OR_RETURN(const int64_t least_tokens, count(1));
  if (least_tokens > room) {
    return InvalidArgument("a needle in one sentence needs " + std::to_string(least_tokens + kNeedleAnswerTokens) +
                           " tokens, found a length of " + std::to_string(length));
  }
  WINNOW_ASSIGN_OR_RETURN(const int64_t sentences, LargestThatFits(1, length, room, count));
  return make(sentences);
}

}  // namespace winnow
