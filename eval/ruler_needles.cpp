// Needles in a haystack: RULER's niah.py.
#include <algorithm>
#include <set>

#include "base/check.h"
#include "eval/ruler_makers.h"
#include "eval/word_lists.h"

namespace winnow {
namespace {

enum Part : uint32_t { kNeedlePart, kPlacePart, kHayPart };

// RULER's depths: 40 of them, evenly spaced from 0 to 100 %.
constexpr int64_t kNumDepths = 40;

struct Needle {
  std::string key, sentence;
};

// A key that was not drawn before.
std::string NewKey(bool uuid, RandomStream& random, std::set<std::string>* keys) {
  while (true) {
    const auto pick = [&](std::span<const std::string_view> words) {
      return std::string(words[size_t(random.Below(int64_t(words.size())))]);
    };
    std::string key = uuid ? random.Uuid() : pick(Adjectives());
    if (!uuid) key += "-" + pick(Nouns());
    if (keys->insert(key).second) return key;
  }
}

std::string NewValue(NeedleKind::Value value, RandomStream& random) {
  return value == NeedleKind::Value::kUuid ? random.Uuid() : random.Digits(7);
}

std::string TypeName(NeedleKind::Value value) {
  return value == NeedleKind::Value::kUuid ? "uuid" : "number";
}

std::string NeedleSentence(const NeedleKind& kind, const std::string& key, const std::string& value) {
  return "One of the special magic " + TypeName(kind.value) + "s for " + key + " is: " + value + ".";
}

// Where each needle goes: before which of the haystack's units.
std::vector<int64_t> Places(const NeedleKind& kind, int64_t num_needles, int64_t units, RandomStream& random) {
  std::vector<int64_t> places;
  if (kind.hay == NeedleKind::Hay::kEssay) {
    for (int64_t depth : random.Sample(kNumDepths, num_needles)) places.push_back(units * depth / (kNumDepths - 1));
  } else {
    // By a fraction of 2^30, so that a longer haystack has its needles at the same depth.
    for (int64_t i = 0; i < num_needles; ++i) places.push_back(units * random.Below(int64_t(1) << 30) >> 30);
  }
  return places;
}

}  // namespace

std::string JoinNames(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : ", and ";
    text += names[i];
  }
  return text;
}

RulerSample MakeNeedles(const NeedleKind& kind, const RulerInput& input, uint32_t task, uint32_t sample,
                        int64_t units) {
  RandomStream random(input.seed, task, sample, kNeedlePart), place(input.seed, task, sample, kPlacePart),
      hay(input.seed, task, sample, kHayPart);
  std::set<std::string> keys;
  std::vector<Needle> needles;
  std::vector<std::vector<std::string>> values;  // of each key
  for (int64_t i = 0; i < kind.keys; ++i) {
    const std::string key = NewKey(kind.uuid_keys, random, &keys);
    values.emplace_back();
    for (int64_t j = 0; j < kind.values_per_key; ++j) {
      values.back().push_back(NewValue(kind.value, random));
      needles.push_back({key, NeedleSentence(kind, key, values.back().back())});
    }
  }
  RulerSample made;
  std::vector<std::string> asked;
  for (int64_t i : random.Sample(kind.keys, kind.queries)) {
    asked.push_back(needles[size_t(i * kind.values_per_key)].key);
    made.answers.insert(made.answers.end(), values[size_t(i)].begin(), values[size_t(i)].end());
  }
  random.Shuffle(&needles);

  std::vector<std::string> lines;
  switch (kind.hay) {
    case NeedleKind::Hay::kNoise:
      lines.assign(size_t(units), std::string(kNoiseSentence));
      break;
    case NeedleKind::Hay::kEssay:
      lines = input.haystack->Sentences(input.seed, sample, units);
      break;
    case NeedleKind::Hay::kNeedles:
      for (int64_t i = 0; i < units; ++i) {
        const std::string key = NewKey(kind.uuid_keys, hay, &keys);
        lines.push_back(NeedleSentence(kind, key, NewValue(kind.value, hay)));
      }
      break;
  }
  std::vector<std::pair<int64_t, std::string>> placed;
  const std::vector<int64_t> places = Places(kind, int64_t(needles.size()), units, place);
  for (size_t i = 0; i < needles.size(); ++i) placed.emplace_back(places[i], needles[i].sentence);
  // From the end, so that earlier places stay what they are.
  std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [at, sentence] : placed) lines.insert(lines.begin() + at, sentence);

  const bool is_one = kind.queries * kind.values_per_key == 1;
  const std::string type = TypeName(kind.value) + (is_one ? "" : "s"), query = JoinNames(asked);
  made.context = (is_one ? "A special magic " + type + " is" : "Some special magic " + type + " are") +
                 " hidden within the following text. Make sure to memorize it. I will quiz you about the " + type +
                 " afterwards.\n";
  const std::string between = kind.hay == NeedleKind::Hay::kEssay ? " " : "\n";
  for (size_t i = 0; i < lines.size(); ++i) made.context += (i == 0 ? "" : between) + lines[i];
  made.context += "\n";
  made.question = (is_one ? "What is the special magic " : "What are all the special magic ") + type + " for " + query +
                  " mentioned in the provided text?";
  made.answer_prefix =
      " The special magic " + type + " for " + query + " mentioned in the provided text " + (is_one ? "is" : "are");
  return made;
}

}  // namespace winnow
