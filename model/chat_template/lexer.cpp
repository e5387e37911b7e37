#include "model/chat_template/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "model/chat_template/python_text.h"
#include "model/chat_template/string_literal.h"

namespace winnow::jinja {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || IsDigit(c) || uint8_t(c) >= 0x80;
}

// Every kind of line break becomes \n, and one at the very end is dropped.
std::string NormaliseLines(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      i += i + 1 < source.size() && source[i + 1] == '\n';
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormaliseLines(source)) {}

  Result<std::vector<Token>> Run() {
    while (at_ < source_.size()) WINNOW_RETURN_IF_ERROR(TakeTextAndTag());
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(at_); }
  bool StartsWith(std::string_view text) const { return Rest().starts_with(text); }
  void Add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }
  void Advance(size_t num_bytes) {
    line_ += int(std::count(source_.begin() + ptrdiff_t(at_), source_.begin() + ptrdiff_t(at_ + num_bytes), '\n'));
    at_ += num_bytes;
  }
  void AdvanceOverSpace() {
    while (const size_t space = SpaceAt(source_, at_)) Advance(space);
  }
  // The sign that follows a tag's two opening bytes: '-', '+' or 0.
  char SignAt(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  // The text before a tag, from the current place to `end`, as its sign and lstrip_blocks leave it.
  void TakeText(size_t end, char sign, bool is_output) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      while (const size_t space = SpaceBefore(text, text.size())) text.remove_suffix(space);
    } else if (sign != '+' && !is_output) {
      const size_t newline = text.rfind('\n');
      const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      if (line_begin > 0 || line_starting_) {
        size_t indent_end = line_begin;
        while (const size_t space = SpaceAt(text, indent_end)) indent_end += space;
        if (indent_end == text.size()) text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) Add(TokenKind::kText, std::string(text));
    Advance(end - at_);
  }

  Status TakeTextAndTag() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 == source_.size()) {
        Add(TokenKind::kText, std::string(Rest()));
        Advance(source_.size() - at_);
        return OkStatus();
      }
      if (std::string_view("{%#").find(source_[tag + 1]) != std::string_view::npos) break;
      ++tag;
    }
    const char type = source_[tag + 1], sign = SignAt(tag + 2);
    TakeText(tag, sign, type == '{');
    if (type == '%') {
      if (const size_t raw_bytes = RawTagBytes("raw")) return TakeRaw(raw_bytes);
    }
    Advance(sign ? 3 : 2);
    if (type == '#') return TakeComment();
    Add(type == '%' ? TokenKind::kBlockBegin : TokenKind::kOutputBegin, "");
    return TakeTag(type == '%');
  }

  // The bytes of a {% raw %} or {% endraw %} at the current place without what follows the closing brace; 0: none.
  size_t RawTagBytes(std::string_view name) const {
    if (!StartsWith("{%")) return 0;
    size_t at = at_ + 2;
    if (SignAt(at)) ++at;
    while (const size_t space = SpaceAt(source_, at)) at += space;
    if (std::string_view(source_).substr(at, name.size()) != name) return 0;
    at += name.size();
    while (const size_t space = SpaceAt(source_, at)) at += space;
    if (std::string_view(source_).substr(at, 2) == "%}") return at + 2 - at_;
    const std::string_view end = std::string_view(source_).substr(at, 3);
    return end == "-%}" || (end == "+%}" && name == "endraw") ? at + 3 - at_ : 0;
  }

  Status TakeRaw(size_t tag_bytes) {
    const int line = line_;
    Advance(tag_bytes);
    EndTag(source_[at_ - 3], /*trims_newline=*/false);
    const size_t begin = at_;
    for (size_t end = begin; (end = source_.find("{%", end)) != std::string::npos; ++end) {
      at_ = end;
      const size_t end_bytes = RawTagBytes("endraw");
      at_ = begin;
      if (end_bytes == 0) continue;
      TakeText(end, SignAt(end + 2), /*is_output=*/false);
      Advance(end_bytes);
      EndTag(source_[at_ - 3], /*trims_newline=*/true);
      return OkStatus();
    }
    return ErrorAt(line, "raw: expected {% endraw %}, found the end of the template");
  }

  Status TakeComment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return ErrorAt(line_, "comment: expected #}, found the end of the template");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    Advance(end + 2 - at_);
    EndTag(sign, /*trims_newline=*/true);
    return OkStatus();
  }

  // Behind a tag: the white space that its sign or trim_blocks takes away.
  void EndTag(char sign, bool trims_newline) {
    if (sign == '-') {
      AdvanceOverSpace();
    } else if (sign != '+' && trims_newline && StartsWith("\n")) {
      Advance(1);
    }
    line_starting_ = source_[at_ - 1] == '\n';
  }

  // Whether the tag ends here; then it has been taken.
  bool TakeEnd(bool is_block) {
    if (!braces_.empty()) return false;
    const std::string end = is_block ? "%}" : "}}";
    const bool has_sign = StartsWith("-" + end) || (is_block && StartsWith("+" + end));
    if (!has_sign && !StartsWith(end)) return false;
    Add(is_block ? TokenKind::kBlockEnd : TokenKind::kOutputEnd, "");
    const char sign = has_sign ? source_[at_] : '\0';
    Advance(has_sign ? 3 : 2);
    EndTag(sign, is_block);
    return true;
  }

  Status TakeTag(bool is_block) {
    const int line = line_;
    while (true) {
      AdvanceOverSpace();
      if (at_ == source_.size()) {
        return ErrorAt(line, std::string("expected ") + (is_block ? "%}" : "}}") + ", found the end of the template");
      }
      if (TakeEnd(is_block)) return OkStatus();
      const char c = source_[at_];
      if (IsDigit(c)) {
        WINNOW_RETURN_IF_ERROR(TakeNumber());
      } else if (IsNameByte(c)) {
        size_t end = at_;
        while (end < source_.size() && IsNameByte(source_[end]) && SpaceAt(source_, end) == 0) ++end;
        Add(TokenKind::kName, source_.substr(at_, end - at_));
        Advance(end - at_);
      } else if (c == '\'' || c == '"') {
        WINNOW_RETURN_IF_ERROR(TakeString(c));
      } else {
        WINNOW_RETURN_IF_ERROR(TakeOperator());
      }
    }
  }

  Status TakeString(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return ErrorAt(line_, "text in quotes: expected its end, found that of the template");
    auto text = UnescapeLiteral(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
    if (!text.ok()) return ErrorAt(line_, text.status().message());
    Add(TokenKind::kString, std::move(text).value());
    Advance(end + 1 - at_);
    return OkStatus();
  }

  // Digits of a base, a _ between two of them allowed.
  size_t DigitsEnd(size_t at, int base) const {
    const auto is_digit = [&](size_t i) {
      if (i >= source_.size()) return false;
      const char c = source_[i];
      const int digit = IsDigit(c)             ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : 99;
      return digit < base;
    };
    while (is_digit(at) || (at < source_.size() && source_[at] == '_' && is_digit(at + 1))) ++at;
    return at;
  }

  Status TakeNumber() {
    const auto at = [&](size_t i) { return i < source_.size() ? source_[i] : '\0'; };
    int base = 10;
    size_t begin = at_, end = DigitsEnd(at_, 10);
    bool is_float = false;
    const char letter = char(at(at_ + 1) | 0x20);
    if (at(at_) == '0' && (letter == 'x' || letter == 'o' || letter == 'b')) {
      const int wanted = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
      if (const size_t digits_end = DigitsEnd(at_ + 2, wanted); digits_end > at_ + 2) {
        base = wanted;
        begin = at_ + 2;
        end = digits_end;
      }
    }
    if (base == 10) {
      if (at(end) == '.' && IsDigit(at(end + 1))) {
        is_float = true;
        end = DigitsEnd(end + 1, 10);
      }
      const size_t exponent = end + 1 + (at(end + 1) == '+' || at(end + 1) == '-');
      if ((at(end) | 0x20) == 'e' && IsDigit(at(exponent))) {
        is_float = true;
        end = DigitsEnd(exponent, 10);
      }
    }
    std::string digits = source_.substr(begin, end - begin);
    std::erase(digits, '_');
    if (!is_float) {
      if (base == 10 && digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos) {
        return ErrorAt(line_, "number " + digits + ": expected no 0 in front");
      }
      int64_t value = 0;
      if (std::from_chars(digits.data(), digits.data() + digits.size(), value, base).ec != std::errc()) {
        return ErrorAt(line_, "number " + digits.substr(0, 40) + ": expected one below 2^63");
      }
      digits = std::to_string(value);
    }
    Add(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(digits));
    Advance(end - at_);
    return OkStatus();
  }

  Status TakeOperator() {
    for (const std::string_view op : {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                      "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"}) {
      if (!StartsWith(op)) continue;
      if (op == "{" || op == "(" || op == "[") braces_ += op == "{" ? '}' : op == "(" ? ')' : ']';
      if (op == "}" || op == ")" || op == "]") {
        if (braces_.empty() || braces_.back() != op[0]) return ErrorAt(line_, "unexpected '" + std::string(op) + "'");
        braces_.pop_back();
      }
      Add(TokenKind::kOperator, std::string(op));
      Advance(op.size());
      return OkStatus();
    }
    return ErrorAt(line_, "unexpected character '" + source_.substr(at_, 1) + "'");
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last tag ended with a newline
  std::string braces_;         // those that are still to be closed
  std::vector<Token> tokens_;
};

}  // namespace

Status ErrorAt(int line, const std::string& message) {
  return BadFile("line " + std::to_string(line) + ": " + message);
}

Result<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(source).Run();
}

}  // namespace winnow::jinja
