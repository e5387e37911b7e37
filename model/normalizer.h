// What is done to a text before it is cut into pieces: Unicode's form C, replacements, a mark in front. Plain data
// after it is made; any thread may apply it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace winnow {

struct NormalizerStep {
  enum class Kind {
    kFormC,              // Unicode's canonical composition (NFC)
    kReplace,            // every `from` by `to`
    kPrepend,            // `to` in front
    kPrependAtStart,     // the same, but only where the whole text begins, not after a special token
    kPrependOnce,        // `to` in front unless the text begins with it
    kPrependOnceAtStart  // both
  };
  Kind kind;
  std::string from, to;
};

class Normalizer {
 public:
  static constexpr size_t kMaxTextBytes = size_t(1) << 30;  // of a text, also after any step

  Normalizer() = default;
  // A step that replaces has a `from` that is not empty.
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }

  // `text` (valid UTF-8) after all steps: `text` itself where nothing changes, else `*storage`. An empty text stays
  // empty. at_start: it is the beginning of the whole text. InvalidArgument, before memory is taken for it, where a
  // step makes more than kMaxTextBytes, or more than 64 times the bytes of `text` and 64 KiB.
  Result<std::string_view> Apply(std::string_view text, bool at_start, std::string* storage) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace winnow
