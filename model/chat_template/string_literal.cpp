#include "model/chat_template/string_literal.h"

#include <charconv>
#include <cstdint>

#include "model/chat_template/python_text.h"

namespace winnow::jinja {
namespace {

// As many hexadecimal digits as asked for, or an octal number of up to three.
Result<uint32_t> ReadCodePoint(std::string_view digits, size_t num_digits, int base) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.size() != num_digits || error != std::errc() || end != digits.data() + digits.size()) {
    return BadFile("escape in text: expected " + std::to_string(num_digits) + " hexadecimal digits");
  }
  if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
    return BadFile("escape in text: expected a Unicode code point");
  }
  return value;
}

size_t CountOctal(std::string_view text) {
  size_t count = 0;
  while (count < std::min<size_t>(3, text.size()) && text[count] >= '0' && text[count] <= '7') ++count;
  return count;
}

}  // namespace

Result<std::string> UnescapeLiteral(std::string_view literal) {
  std::string text;
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      text += literal[i];
      continue;
    }
    const char c = literal[++i];
    constexpr std::string_view kNames = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t found = kNames.find(c); found != std::string_view::npos) {
      text += kMeanings[found];
    } else if (c == '\n') {
      continue;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t num_digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      WINNOW_ASSIGN_OR_RETURN(const uint32_t value, ReadCodePoint(literal.substr(i + 1, num_digits), num_digits, 16));
      AppendCodePoint(value, &text);
      i += num_digits;
    } else if (const size_t num_digits = CountOctal(literal.substr(i))) {
      WINNOW_ASSIGN_OR_RETURN(const uint32_t value, ReadCodePoint(literal.substr(i, num_digits), num_digits, 8));
      AppendCodePoint(value, &text);
      i += num_digits - 1;
    } else if (c == 'N') {
      return BadFile("escape \\N{...} in text is not supported");
    } else {
      text += '\\';
      text += c;
    }
  }
  return text;
}

}  // namespace winnow::jinja
