// Words to be counted: RULER's common_words_extraction.py and freq_words_extraction.py.
#include <algorithm>
#include <set>

#include "base/check.h"
#include "eval/ruler_makers.h"
#include "eval/word_lists.h"

namespace winnow {
namespace {

constexpr int64_t kCommonWords = 10;
constexpr int64_t kCodedLetters = 6;

enum Part : uint32_t { kWordPart, kOrderPart, kExampleWordPart, kExampleOrderPart };

// `count` different words in random order: of the lists, then two of them in one.
std::vector<std::string> DifferentWords(int64_t count, RandomStream& random) {
  std::vector<std::string> words;
  for (auto list : {Adjectives(), Nouns(), Verbs()}) words.insert(words.end(), list.begin(), list.end());
  random.Shuffle(&words);
  const int64_t num_listed = int64_t(words.size());
  std::set<std::string> taken(words.begin(), words.end());
  while (int64_t(words.size()) < count) {
    std::string word = words[size_t(random.Below(num_listed))] + words[size_t(random.Below(num_listed))];
    if (taken.insert(word).second) words.push_back(std::move(word));
  }
  words.resize(size_t(count));
  return words;
}

struct Counts {
  int64_t common, uncommon;  // how often each word comes
};

std::string Numbered(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : " ") + std::to_string(i + 1) + ". " + words[i];
  return text;
}

// The first kCommonWords words are the common ones.
RulerSample AskCommon(const std::vector<std::string>& words, const Counts& counts, RandomStream& order) {
  std::vector<std::string> list;
  for (size_t i = 0; i < words.size(); ++i) {
    list.insert(list.end(), size_t(int64_t(i) < kCommonWords ? counts.common : counts.uncommon), words[i]);
  }
  order.Shuffle(&list);
  RulerSample sample;
  sample.context =
      "Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that "
      "appear most often.\n" +
      Numbered(list) + "\n";
  sample.question = "Question: What are the 10 most common words in the above list?";
  sample.answer_prefix = " Answer: The top 10 words that appear most often in the list are:";
  sample.answers.assign(words.begin(), words.begin() + kCommonWords);
  return sample;
}

}  // namespace

RulerSample MakeCommonWords(const RulerInput& input, uint32_t task, uint32_t sample, int64_t units) {
  WINNOW_CHECK(units > kCommonWords);
  // RULER's counts, below 4096 tokens and from there on.
  const bool is_short = input.length < 4096;
  const Counts counts = is_short ? Counts{6, 1} : Counts{30, 3};
  const Counts example_counts = is_short ? Counts{3, 1} : Counts{10, 3};
  RandomStream words(input.seed, task, sample, kWordPart), order(input.seed, task, sample, kOrderPart),
      example_words(input.seed, task, sample, kExampleWordPart),
      example_order(input.seed, task, sample, kExampleOrderPart);
  RulerSample made = AskCommon(DifferentWords(units, words), counts, order);
  const RulerSample example =
      AskCommon(DifferentWords(is_short ? 20 : 40, example_words), example_counts, example_order);
  made.context = example.context + example.question + example.answer_prefix + " " + Numbered(example.answers) + "\n" +
                 made.context;
  return made;
}

RulerSample MakeFrequentWords(const RulerInput& input, uint32_t task, uint32_t sample, int64_t units) {
  RandomStream words(input.seed, task, sample, kWordPart), order(input.seed, task, sample, kOrderPart);
  // Zipf with exponent 2 over length / 50 coded words, the most frequent of which are dots that do not count.
  const int64_t vocabulary = std::max<int64_t>(input.length / 50, 5);
  constexpr double kZetaOf2 = 1.6449340668482264;
  RulerSample made;
  std::vector<std::string> text;
  std::set<std::string> taken;
  while (int64_t(taken.size()) < vocabulary - 1) {
    std::string word = words.Letters('a', kCodedLetters);
    if (!taken.insert(word).second) continue;
    const int64_t rank = int64_t(taken.size()) + 1;
    text.insert(text.end(), size_t(double(units) / double(rank * rank) / kZetaOf2), word);
    if (rank <= 4) made.answers.push_back(std::move(word));
  }
  text.insert(text.end(), size_t(double(units) / kZetaOf2), "...");
  order.Shuffle(&text);
  made.context =
      "Read the following coded text and track the frequency of each coded word. Find the three most frequently "
      "appeared coded words. ";
  for (size_t i = 0; i < text.size(); ++i) made.context += (i == 0 ? "" : " ") + text[i];
  made.context += "\n";
  made.question =
      "Question: Do not provide any explanation. Please ignore the dots '....'. What are the three most frequently "
      "appeared words in the above coded text?";
  made.answer_prefix = " Answer: According to the coded text above, the three most frequently appeared words are:";
  return made;
}

}  // namespace winnow
