#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/pre_tokenizer.h"

#include <pcre2.h>

namespace winnow {
namespace {

// \s of the tokenizers' libraries is Unicode's White_Space. PCRE2's own \s also takes U+180E, so it is spelled out.
#define WINNOW_SPACE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

// GPT-2's pattern (Radford et al. 2019): contractions, words, numbers and punctuation with one space before, spaces.
constexpr const char* kGpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WINNOW_SPACE
                              "\\p{L}\\p{N}]+"
                              "|[" WINNOW_SPACE "]+(?![^" WINNOW_SPACE "])|[" WINNOW_SPACE "]+";

// Any single digit: cut out first by the tokenizers that write numbers digit by digit.
constexpr const char* kDigit = "\\p{N}";

// The pattern of tiktoken's cl100k with numbers of up to `max_digits` digits.
std::string Cl100k(const std::string& number) {
  return "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" + number +
         "| ?[^" WINNOW_SPACE "\\p{L}\\p{N}]+[\\r\\n]*|[" WINNOW_SPACE "]*[\\r\\n]+|[" WINNOW_SPACE
         "]+(?![^" WINNOW_SPACE "])|[" WINNOW_SPACE "]+";
}

#undef WINNOW_SPACE

const std::vector<PreTokenizerRule>& Rules() {
  static const std::vector<PreTokenizerRule> rules = {
      {{"gpt2", "gpt-2", "default", "phi-2", "mpt", "olmo", "jais"}, {kGpt2}, false, false},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell"}, {kDigit, kGpt2}, false, false},
      {{"llama-bpe", "llama3", "llama-v3"}, {Cl100k("\\p{N}{1,3}")}, true, true},
      // Qwen also brings its text to Unicode's form C first; winnow takes the text as it is, as llama.cpp does.
      {{"qwen2", "deepseek-r1-qwen"}, {Cl100k("\\p{N}")}, false, false},
  };
  return rules;
}

template <auto kFree>
struct FreeWith {
  template <class T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, FreeWith<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data_free>>;

Code Compile(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error,
                          &error_offset, nullptr));
  WINNOW_CHECK(code != nullptr);  // the patterns are ours
  // Where the system allows no executable memory this fails, and PCRE2 interprets the pattern: slower, the same pieces.
  static_cast<void>(pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE));
  return code;
}

// Match-data of one call for every pattern: they hold PCRE2's scratch and may not be shared by threads.
struct Splitter {
  const std::vector<Code>& codes;
  std::vector<MatchData> scratch;
  const std::function<void(std::string_view)>& visit;

  Status Split(std::string_view text, size_t level) {
    if (text.empty()) return OkStatus();
    if (level == codes.size()) {
      visit(text);
      return OkStatus();
    }
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    pcre2_match_data* match = scratch[level].get();
    size_t done = 0;
    while (done < text.size()) {
      // The text was checked once by the caller; checking it again at every match would cost quadratic time.
      const int count = pcre2_match(codes[level].get(), subject, text.size(), done, PCRE2_NO_UTF_CHECK, match, nullptr);
      if (count == PCRE2_ERROR_NOMATCH) break;
      if (count < 0) {
        PCRE2_UCHAR message[128];
        pcre2_get_error_message(count, message, sizeof message);
        return InternalError("pre-tokenizer: " + std::string(reinterpret_cast<const char*>(message)));
      }
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match);
      const size_t begin = range[0], end = range[1];
      WINNOW_CHECK(end > begin);  // no pattern matches the empty text
      WINNOW_RETURN_IF_ERROR(Split(text.substr(done, begin - done), level + 1));
      WINNOW_RETURN_IF_ERROR(Split(text.substr(begin, end - begin), level + 1));
      done = end;
    }
    return Split(text.substr(done), level + 1);
  }
};

}  // namespace

struct PreTokenizer::Patterns {
  std::vector<Code> codes;
};

PreTokenizer::PreTokenizer(const PreTokenizerRule& rule) {
  auto patterns = std::make_unique<Patterns>();
  for (const std::string& pattern : rule.patterns) patterns->codes.push_back(Compile(pattern));
  patterns_ = std::move(patterns);
}

PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

Status PreTokenizer::Split(std::string_view text, const std::function<void(std::string_view)>& visit) const {
  Splitter splitter{patterns_->codes, {}, visit};
  for (const Code& code : patterns_->codes) {
    splitter.scratch.emplace_back(pcre2_match_data_create_from_pattern(code.get(), nullptr));
    WINNOW_CHECK(splitter.scratch.back() != nullptr);
  }
  return splitter.Split(text, 0);
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
