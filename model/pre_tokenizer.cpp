#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/pre_tokenizer.h"

#include <pcre2.h>

namespace winnow {
namespace {

template <auto kFree>
struct FreeWith {
  template <class T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, FreeWith<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data_free>>;

std::string Message(int error) {
  PCRE2_UCHAR message[128];
  pcre2_get_error_message(error, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

Result<Code> CompileOne(const std::string& pattern) {
  const auto refuse = [&](const std::string& why) {
    constexpr size_t kMaxShown = 200;
    return InvalidArgument("pattern " + pattern.substr(0, kMaxShown) + (pattern.size() > kMaxShown ? "...: " : ": ") +
                           why);
  };
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error,
                          &error_offset, nullptr));
  if (code == nullptr) return refuse(Message(error) + " at byte " + std::to_string(error_offset));
  uint32_t may_be_empty = 0;
  pcre2_pattern_info(code.get(), PCRE2_INFO_MATCHEMPTY, &may_be_empty);
  if (may_be_empty != 0) return refuse("expected one that matches something, found one that may match the empty text");
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
        return InvalidArgument("text: the model's pre-tokenizer gives up after byte " + std::to_string(done) + ": " +
                               Message(count));
      }
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match);
      const size_t begin = range[0], end = range[1];
      WINNOW_CHECK(end > begin);  // Compile has refused what matches the empty text
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

Result<PreTokenizer> PreTokenizer::Compile(const std::vector<std::string>& patterns) {
  auto compiled = std::make_unique<Patterns>();
  for (const std::string& pattern : patterns) {
    WINNOW_ASSIGN_OR_RETURN(compiled->codes.emplace_back(), CompileOne(pattern));
  }
  return PreTokenizer(std::move(compiled));
}

PreTokenizer::PreTokenizer(std::unique_ptr<const Patterns> patterns) : patterns_(std::move(patterns)) {}
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

}  // namespace winnow
