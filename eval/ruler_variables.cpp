// Variable tracking: RULER's variable_tracking.py.
#include <algorithm>
#include <set>

#include "eval/ruler_makers.h"

namespace winnow {
namespace {

constexpr int64_t kHops = 4;
constexpr int64_t kExampleNoiseLines = 5;

enum Part : uint32_t { kChainPart, kPlacePart, kExamplePart, kExamplePlacePart };

struct Chain {
  std::vector<std::string> names, lines;
  std::string value;
};

// VAR A = 12345, VAR B = VAR A, ... The names are new ones.
Chain NewChain(int64_t letters, RandomStream& random, std::set<std::string>* taken) {
  Chain chain;
  chain.value = random.Digits(5);
  while (int64_t(chain.names.size()) <= kHops) {
    const std::string name = random.Letters('A', letters);
    // "VAR" would read as the keyword.
    if (name == "VAR" || !taken->insert(name).second) continue;
    chain.lines.push_back("VAR " + name + " = " + (chain.names.empty() ? chain.value : "VAR " + chain.names.back()));
    chain.names.push_back(name);
  }
  return chain;
}

// The chain's lines in order among noise.
std::string Hidden(const Chain& chain, int64_t noise_lines, RandomStream& place) {
  std::vector<int64_t> places;
  for (size_t i = 0; i < chain.lines.size(); ++i) places.push_back(noise_lines * place.Below(int64_t(1) << 30) >> 30);
  std::sort(places.begin(), places.end());
  std::string text;
  size_t next = 0;
  for (int64_t line = 0; line <= noise_lines; ++line) {
    for (; next < places.size() && (places[next] == line || line == noise_lines); ++next) {
      text += chain.lines[next] + "\n";
    }
    if (line < noise_lines) text += std::string(kNoiseSentence) + "\n";
  }
  return text;
}

RulerSample Ask(const Chain& chain, const std::string& hidden) {
  RulerSample sample;
  sample.context = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n" + hidden;
  sample.question = "Question: Find all variables that are assigned the value " + chain.value + " in the text above.";
  sample.answer_prefix = " Answer: According to the chain(s) of variable assignment in the text above, " +
                         std::to_string(chain.names.size()) + " variables are assigned the value " + chain.value +
                         ", they are:";
  sample.answers = chain.names;
  return sample;
}

}  // namespace

RulerSample MakeVariableTracking(const RulerInput& input, uint32_t task, uint32_t sample, int64_t units) {
  RandomStream random(input.seed, task, sample, kChainPart), place(input.seed, task, sample, kPlacePart),
      example_random(input.seed, task, sample, kExamplePart),
      example_place(input.seed, task, sample, kExamplePlacePart);
  std::set<std::string> taken;
  const Chain chain = NewChain(5, random, &taken);
  Chain shown = NewChain(3, example_random, &taken);
  RulerSample made = Ask(chain, Hidden(chain, units, place));
  const RulerSample example = Ask(shown, Hidden(shown, kExampleNoiseLines, example_place));
  std::string solved = example.context + example.question + example.answer_prefix;
  for (const std::string& name : shown.names) solved += " " + name;
  made.context = solved + "\n\n" + made.context;
  return made;
}

}  // namespace winnow
