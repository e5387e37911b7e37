#include "eval/haystack.h"

#include <span>

#include "eval/random_stream.h"
#include "eval/text_words.h"
#include "eval/word_lists.h"

namespace winnow {
namespace {

constexpr uint32_t kHaystackTask = 0;

// {a}: adjective, {n}: noun, {p}: plural noun, {v}: verb, {t}: a time, {w}: a place.
constexpr std::string_view kPatterns[] = {
    "{t} the {a} {n} near the {n} was {a} again.",
    "The {n} kept a {a} {n} {w}, and nobody knew why.",
    "It takes a {a} {n} to {v} and {v} at the same time.",
    "People who {v} every day need a {a} {n} more than a {a} one.",
    "{t} we used to {v} by the {n}, where the {n} was {a}.",
    "A {a} {n} is worth more than two {a} {p}.",
    "The {p} {w} were {a}, but the {n} stayed {a}.",
    "Whoever wants to {v} should first look for a {n}.",
    "Nobody could {v} without the {n} and its {a} {p}.",
    "There was a {n} {w} that had been {a} since the first {n}.",
    "{t} the {p} of the {n} began to {v}.",
    "If the {n} is {a}, the {p} will {v} sooner or later.",
    "They said that the {a} {n} would never {v} {w}.",
    "My {n} taught me to {v} before I could {v}.",
    "Between the {n} and the {n} stood a row of {a} {p}.",
    "Some {p} are {a}, others are {a}, and a few can {v}.",
    "{t} a {a} {n} came {w} to {v} with the {p}.",
    "What makes a {n} {a} is the {n} behind it.",
    "The {a} part of the work is to {v} when the {n} is gone.",
    "You can {v} a {n}, yet you cannot {v} the {a} {p} around it.",
    "One day the {n} will {v}, and the {p} will be {a}.",
    "Most of the {p} that I know would rather {v} than {v}.",
};

constexpr std::string_view kTimes[] = {
    "In the morning",          "Years later",  "Before the rain", "On the last day", "When the light was low,",
    "After a while",           "Every spring", "Late at night",   "At first",        "By the end of the week",
    "During the long holiday", "Now and then",
};

constexpr std::string_view kPlaces[] = {
    "at the edge of the village",
    "in the upper town",
    "on the other side",
    "behind the old wall",
    "under the trees",
    "next to the bridge",
    "in the small room",
    "along the coast",
    "beyond the hills",
    "at the corner",
    "in plain view",
    "far from the road",
};

std::string_view Pick(RandomStream& random, std::span<const std::string_view> from) {
  return from[size_t(random.Below(int64_t(from.size())))];
}

bool IsVowel(char c) {
  return std::string_view("aeiou").find(c) != std::string_view::npos;
}

std::string Plural(std::string_view noun) {
  const std::string word(noun);
  const auto ends = [&](std::string_view end) { return noun.ends_with(end); };
  if (ends("y") && !IsVowel(noun[noun.size() - 2])) return word.substr(0, word.size() - 1) + "ies";
  if (ends("s") || ends("x") || ends("ch") || ends("sh")) return word + "es";
  if (ends("leaf") || ends("wolf") || ends("shelf")) return word.substr(0, word.size() - 1) + "ves";
  return word + "s";
}

std::string Draw(RandomStream& random, char kind) {
  switch (kind) {
    case 'a':
      return std::string(Pick(random, Adjectives()));
    case 'n':
      return std::string(Pick(random, Nouns()));
    case 'p':
      return Plural(Pick(random, Nouns()));
    case 'v':
      return std::string(Pick(random, Verbs()));
    case 't':
      return std::string(Pick(random, kTimes));
    default:
      return std::string(Pick(random, kPlaces));
  }
}

std::string Sentence(RandomStream& random) {
  std::string text;
  const std::string_view pattern = Pick(random, kPatterns);
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '{') {
      text += pattern[i];
      continue;
    }
    const std::string word = Draw(random, pattern[i + 1]);
    const bool after_article = text.ends_with(" a ") || text == "A ";
    if (after_article && IsVowel(word.front())) text.insert(text.size() - 1, "n");
    text += word;
    i += 2;  // the letter and the closing brace
  }
  return text;
}

}  // namespace

Haystack Haystack::FromText(std::string_view text) {
  Haystack haystack;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool ends_sentence = std::string_view(".?!").find(text[i]) != std::string_view::npos &&
                               (i + 1 == text.size() || text[i + 1] == ' ' || text[i + 1] == '\n');
    if (!ends_sentence && text[i] != '\n' && i + 1 < text.size()) continue;
    const std::string_view sentence = Trim(text.substr(begin, i + 1 - begin));
    if (!sentence.empty()) haystack.sentences_.emplace_back(sentence);
    begin = i + 1;
  }
  return haystack;
}

std::vector<std::string> Haystack::Sentences(uint64_t seed, uint32_t sample, int64_t count) const {
  std::vector<std::string> sentences;
  RandomStream random(seed, kHaystackTask, sample, 0);
  for (int64_t i = 0; i < count; ++i) {
    sentences.push_back(is_generated() ? Sentence(random) : sentences_[size_t(i) % sentences_.size()]);
  }
  return sentences;
}

}  // namespace winnow
