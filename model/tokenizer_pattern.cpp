#include "model/tokenizer_pattern.h"

#include <algorithm>
#include <array>

#include "model/tokenizer_text.h"
#include "model/utf8.h"

namespace winnow {
namespace {

constexpr size_t kMaxPatternBytes = size_t(16) << 10;
// The inside of a set; as in model/pre_tokenizer_rules.cpp.
constexpr std::string_view kSpace =
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
// Unicode's general categories, and the scripts that tokenizers name.
constexpr std::array<std::string_view, 40> kProperties = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me",  "N",        "Nd",      "Nl", "No",
    "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm",  "Sc",       "Sk",      "So", "Z",
    "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cs", "Co", "Cn", "Han", "Hiragana", "Katakana"};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> Translate() {
    if (pattern_.size() > kMaxPatternBytes) {
      return InvalidArgument("expected at most " + std::to_string(kMaxPatternBytes) + " bytes, found " +
                             std::to_string(pattern_.size()));
    }
    if (const auto offset = FindInvalidUtf8(pattern_)) {
      return InvalidArgument("expected UTF-8, found an invalid sequence at byte " + std::to_string(*offset));
    }
    while (!AtEnd()) WINNOW_RETURN_IF_ERROR(TakeItem());
    return std::move(out_);
  }

 private:
  bool AtEnd() const { return at_ == pattern_.size(); }
  char Peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool Follows(std::string_view text) const { return pattern_.substr(at_, text.size()) == text; }
  void Copy(size_t num_bytes) {
    out_ += pattern_.substr(at_, num_bytes);
    at_ += num_bytes;
  }
  Status Refuse(std::string_view construct) const {
    return InvalidArgument("expected a construct that winnow knows, found " + QuotedToken(construct) + " at byte " +
                           std::to_string(at_));
  }

  Status TakeItem() {
    switch (Peek()) {
      case '\\':
        return TakeEscape(/*in_set=*/false);
      case '[':
        return TakeSet();
      case '(':
        return TakeGroup();
      case '{':
        return TakeCount();
      case '^':
      case '$':
      case '.':
      case ']':
      case '}':
        return Refuse(pattern_.substr(at_, 1));
      case '#':
      default:
        Copy(1);
        return OkStatus();
    }
  }

  Status TakeGroup() {
    for (const std::string_view opening : {"(?:", "(?i:", "(?!", "(?="}) {
      if (!Follows(opening)) continue;
      Copy(opening.size());
      return OkStatus();
    }
    if (Peek(1) == '?' || Peek(1) == '*') return Refuse(pattern_.substr(at_, 3));
    Copy(1);
    return OkStatus();
  }

  // {3}, {1,3} or {2,}; a + after it makes another repetition for Oniguruma and a possessive one for PCRE2.
  Status TakeCount() {
    const size_t end = pattern_.find('}', at_);
    const std::string_view count = pattern_.substr(at_, end == std::string_view::npos ? end : end + 1 - at_);
    const bool plain =
        end != std::string_view::npos && count.size() > 2 && count[1] >= '0' && count[1] <= '9' &&
        std::count(count.begin(), count.end(), ',') <= 1 &&
        std::all_of(count.begin() + 1, count.end() - 1, [](char c) { return (c >= '0' && c <= '9') || c == ','; });
    if (!plain || (end + 1 < pattern_.size() && pattern_[end + 1] == '+')) return Refuse(count);
    Copy(count.size());
    return OkStatus();
  }

  Status TakeEscape(bool in_set) {
    const char kind = Peek(1);
    if (kind == 's' || (kind == 'S' && !in_set)) {
      at_ += 2;
      out_ += in_set ? std::string(kSpace) : (kind == 's' ? "[" : "[^") + std::string(kSpace) + "]";
      return OkStatus();
    }
    if (kind == 'p' || kind == 'P') return TakeProperty();
    // Oniguruma's \d is Unicode's decimal digits, as PCRE2's is here.
    constexpr std::string_view kSame = "dnrtf\\.^$|()[]{}*+?-/'\"!#%&,:;<=>@_`~ ";
    if (kind == '\0' || kSame.find(kind) == std::string_view::npos) return Refuse(pattern_.substr(at_, 2));
    Copy(2);
    return OkStatus();
  }

  Status TakeProperty() {
    const size_t end = pattern_.find('}', at_);
    if (Peek(2) != '{' || end == std::string_view::npos) return Refuse(pattern_.substr(at_, 3));
    const std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    if (std::find(kProperties.begin(), kProperties.end(), name) == kProperties.end()) {
      return Refuse(pattern_.substr(at_, end + 1 - at_));
    }
    Copy(end + 1 - at_);
    return OkStatus();
  }

  Status TakeSet() {
    const size_t begin = at_;
    Copy(1);
    if (Peek() == '^') Copy(1);
    if (Peek() == ']') return Refuse(pattern_.substr(begin, at_ + 1 - begin));  // a literal or an empty set?
    while (Peek() != ']') {
      if (AtEnd()) return Refuse(pattern_.substr(begin));
      if (Peek() == '[' || Follows("&&")) return Refuse(pattern_.substr(at_, 2));
      if (Peek() == '\\') {
        WINNOW_RETURN_IF_ERROR(TakeEscape(/*in_set=*/true));
      } else {
        Copy(1);
      }
    }
    Copy(1);
    return OkStatus();
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> TranslatePattern(std::string_view pattern) {
  return Translator(pattern).Translate();
}

std::string PatternOfText(std::string_view text) {
  std::string pattern;
  for (const char byte : text) {
    const bool is_word = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    if (!is_word && uint8_t(byte) < 0x80 && byte != ' ' && byte != '\n' && byte != '\t') pattern += '\\';
    pattern += byte;
  }
  return pattern;
}

}  // namespace winnow
