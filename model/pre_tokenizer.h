// How a text is cut into pieces before byte-level BPE, by the name GGUF files give it ("tokenizer.ggml.pre").
// Letters and numbers are those of the installed PCRE2's Unicode version: with Debian 12's (10.42, Unicode 14) the 40
// digits that Unicode 15 added (Kawi, Kaktovik, Nag Mundari) are cut as symbols, every other code point as Hugging
// Face's tokenizers cut it. A PreTokenizer owns its compiled patterns and is immutable: any thread may use it at any
// time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace winnow {

struct PreTokenizerRule {
  std::vector<std::string_view> names;  // as in tokenizer.ggml.pre
  // PCRE2 patterns, applied one after the other: each cuts the pieces that the one before left. What a pattern does not
  // match stays a piece of its own.
  std::vector<std::string> patterns;
  bool ignore_merges;  // a piece that is a token of the vocabulary is that token, whatever the merges say
  bool adds_bos;       // when the file does not say (tokenizer.ggml.add_bos_token)
};

// nullptr when winnow does not know the name.
const PreTokenizerRule* FindPreTokenizerRule(std::string_view name);
// All known names, for messages.
std::string KnownPreTokenizerNames();

class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerRule& rule);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  // Calls visit(piece) for every piece of `text` in order; the pieces are not empty and together are the text.
  // `text` must be valid UTF-8.
  Status Split(std::string_view text, const std::function<void(std::string_view)>& visit) const;

 private:
  struct Patterns;
  std::unique_ptr<const Patterns> patterns_;
};

}  // namespace winnow
