#include "model/pre_tokenizer.h"

namespace winnow {
namespace {

// \s of the tokenizers' libraries is Unicode's White_Space. PCRE2's own \s also takes U+180E, so it is spelled out.
#define WINNOW_SPACE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

// GPT-2's pattern (Radford et al. 2019): contractions, words, numbers and punctuation with one space before, spaces.
constexpr const char* kGpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WINNOW_SPACE
                              "\\p{L}\\p{N}]+"
                              "|[" WINNOW_SPACE "]+(?![^" WINNOW_SPACE "])|[" WINNOW_SPACE "]+";

// The pattern of tiktoken's cl100k with numbers of up to `max_digits` digits.
std::string Cl100k(const std::string& number) {
  return "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" + number +
         "| ?[^" WINNOW_SPACE "\\p{L}\\p{N}]+[\\r\\n]*|[" WINNOW_SPACE "]*[\\r\\n]+|[" WINNOW_SPACE
         "]+(?![^" WINNOW_SPACE "])|[" WINNOW_SPACE "]+";
}

#undef WINNOW_SPACE

// Names whose tokens were compared with another implementation's (docs/models.md); others have rules of their own, such
// as user-defined tokens of spaces that count in every text.
const std::vector<PreTokenizerRule>& Rules() {
  static const std::vector<PreTokenizerRule> rules = {
      {{"gpt2", "gpt-2"}, {Gpt2Pattern()}, false, false, false},
      {{"smollm", "starcoder", "refact"}, {DigitPattern(), Gpt2Pattern()}, false, false, false},
      {{"llama-bpe", "llama3", "llama-v3"}, {Cl100k("\\p{N}{1,3}")}, true, true, false},
      // As in these models' tokenizer.json, with form C; llama.cpp leaves that out.
      {{"qwen2", "deepseek-r1-qwen"}, {Cl100k("\\p{N}")}, false, false, true},
  };
  return rules;
}

}  // namespace

const std::string& Gpt2Pattern() {
  static const std::string pattern = kGpt2;
  return pattern;
}

const std::string& DigitPattern() {
  static const std::string pattern = "\\p{N}";
  return pattern;
}

const PreTokenizerRule* FindPreTokenizerRule(std::string_view name) {
  for (const PreTokenizerRule& rule : Rules()) {
    for (const std::string_view known : rule.names) {
      if (known == name) return &rule;
    }
  }
  return nullptr;
}

std::string KnownPreTokenizerNames() {
  std::string names;
  for (const PreTokenizerRule& rule : Rules()) {
    for (const std::string_view name : rule.names) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

}  // namespace winnow
