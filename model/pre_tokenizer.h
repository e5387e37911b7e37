// How a text is cut into pieces before its tokens are found: patterns, either the model file's own or, for GGUF files,
// those that belong to the name in "tokenizer.ggml.pre".
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
  std::vector<std::string> patterns;    // as of PreTokenizer::Compile
  bool ignore_merges;                   // a piece that is a token of the vocabulary is that token
  bool adds_bos;                        // when the file does not say (tokenizer.ggml.add_bos_token)
  bool form_c;                          // the text is brought to Unicode's form C first
};

// nullptr when winnow does not know the name. "default" is not known: converters write it where they did not recognise
// the model's patterns, and a wrong guess costs 8 to 10 % more tokens and some quality, silently.
const PreTokenizerRule* FindPreTokenizerRule(std::string_view name);
// All known names, for messages.
std::string KnownPreTokenizerNames();

// GPT-2's pattern, which Hugging Face's "ByteLevel" means, and one that cuts out every single digit.
const std::string& Gpt2Pattern();
const std::string& DigitPattern();

class PreTokenizer {
 public:
  // PCRE2 patterns, applied one after the other: each cuts the pieces that the one before left. What a pattern does not
  // match stays a piece of its own. InvalidArgument, naming the pattern, for what PCRE2 does not compile and for a
  // pattern that may match the empty text.
  static Result<PreTokenizer> Compile(const std::vector<std::string>& patterns);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  // Calls visit(piece) for every piece of `text` in order; the pieces are not empty and together are the text.
  // `text` must be valid UTF-8. InvalidArgument if a pattern of the model file takes more steps than PCRE2 allows.
  Status Split(std::string_view text, const std::function<void(std::string_view)>& visit) const;

 private:
  struct Patterns;
  explicit PreTokenizer(std::unique_ptr<const Patterns> patterns);
  std::unique_ptr<const Patterns> patterns_;
};

}  // namespace winnow
