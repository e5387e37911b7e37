// The text that needles are hidden in: sentences, without an end. The user's own text, again from its beginning when it
// is used up, or prose generated from word lists and sentence patterns. Immutable; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace winnow {

class Haystack {
 public:
  // Generated: grammatical sentences without a story, other ones for every seed and sample.
  Haystack() = default;
  // Cuts a text after its full stops, question and exclamation marks and at line ends. Empty if there is no word in it.
  static Haystack FromText(std::string_view text);

  bool is_generated() const { return sentences_.empty(); }

  // The first `count` sentences of a sample's text.
  std::vector<std::string> Sentences(uint64_t seed, uint32_t sample, int64_t count) const;

 private:
  std::vector<std::string> sentences_;  // of the user's text
};

}  // namespace winnow
