#include "eval/answer_extraction.h"

#include <algorithm>

#include "eval/text_words.h"

namespace winnow {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The offset behind the brace that closes the one at `open`, or npos.
size_t EndOfGroup(std::string_view text, size_t open) {
  int64_t depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;  // whatever is escaped
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

void ReplaceAll(std::string* text, std::string_view from, std::string_view to) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size())) {
    text->replace(at, from.size(), to);
  }
}

// Whether the comma at `at` groups thousands: three digits follow, not more.
bool IsGrouping(std::string_view text, size_t at) {
  if (text[at] != ',' || at + 3 >= text.size()) return false;
  const bool three = IsDigit(text[at + 1]) && IsDigit(text[at + 2]) && IsDigit(text[at + 3]);
  return three && (at + 4 == text.size() || !IsDigit(text[at + 4]));
}

// One form of a decimal number: no grouping, no leading zeros, no zeros behind the last decimal.
std::string CanonicalNumber(bool is_negative, std::string digits) {
  std::erase(digits, ',');
  const size_t point = digits.find('.');
  if (point != std::string::npos) {
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
  }
  const size_t first = digits.find_first_not_of('0');
  digits.erase(0, std::min(first, digits.size()));
  if (digits.empty() || digits.front() == '.') digits.insert(0, "0");
  return (is_negative && digits != "0" ? "-" : "") + digits;
}

// The last number in a text, or the first.
std::optional<std::string> FindNumber(std::string_view text, bool last) {
  std::optional<std::string> found;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts_with_point = text[i] == '.' && i + 1 < text.size() && IsDigit(text[i + 1]);
    if (!IsDigit(text[i]) && !starts_with_point) continue;
    size_t end = i;
    bool has_point = false;
    while (end < text.size()) {
      const bool more = end + 1 < text.size() && IsDigit(text[end + 1]);
      if (text[end] == '.' && more && !has_point) {
        has_point = true;
      } else if (!IsDigit(text[end]) && !(end > i && !has_point && IsGrouping(text, end))) {
        break;
      }
      ++end;
    }
    // The sign may stand before the currency; between two numbers or words it is a dash.
    size_t before = i;
    while (before > 0 && (text[before - 1] == '$' || text[before - 1] == ' ')) --before;
    if (text.substr(before, i - before).find('$') == std::string_view::npos) before = i;
    constexpr std::string_view kMinus = "\u2212";
    size_t sign = before > 0 && text[before - 1] == '-'      ? 1
                  : text.substr(0, before).ends_with(kMinus) ? kMinus.size()
                                                             : 0;
    if (sign > 0 && before > sign && (IsDigit(text[before - sign - 1]) || IsLetter(text[before - sign - 1]))) sign = 0;
    found = CanonicalNumber(sign > 0, std::string(text.substr(i, end - i)));
    if (!last) return found;
    i = end - 1;
  }
  return found;
}

std::optional<char> AsLetter(char c, int64_t num_choices) {
  const char upper = c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
  if (upper < 'A' || upper >= 'A' + std::min<int64_t>(num_choices, 26)) return std::nullopt;
  return upper;
}

// A letter that stands alone at `at`, a capital unless brackets are around it.
std::optional<char> LetterAt(std::string_view text, size_t at, int64_t num_choices) {
  if (at >= text.size()) return std::nullopt;
  const bool is_bracketed = text[at] == '(' || text[at] == '[';
  const size_t letter = at + is_bracketed;
  if (letter >= text.size() || !IsLetter(text[letter])) return std::nullopt;
  if (!is_bracketed && text[letter] >= 'a') return std::nullopt;
  if (letter + 1 < text.size()) {
    const char next = text[letter + 1];
    if (IsLetter(next) || IsDigit(next) || next == '\'' || uint8_t(next) >= 0x80) return std::nullopt;
    if (is_bracketed && next != ')' && next != ']') return std::nullopt;
  }
  return AsLetter(text[letter], num_choices);
}

// Behind the words and signs that may stand between "answer" and a letter.
size_t SkipToChoice(std::string_view lower, size_t at) {
  while (at < lower.size()) {
    const size_t before = at;
    while (at < lower.size() && std::string_view(" \t\r\n:*=$").find(lower[at]) != std::string_view::npos) ++at;
    for (std::string_view word : {"is", "option", "choice", "letter", "the", "correct", "\\text{", "\\boxed{", "{"}) {
      if (lower.substr(at).starts_with(word) &&
          (!IsLetter(word.back()) || at + word.size() == lower.size() || !IsLetter(lower[at + word.size()]))) {
        at += word.size();
        break;
      }
    }
    if (at == before) break;
  }
  return at;
}

}  // namespace

std::optional<std::string> LastBoxed(std::string_view text) {
  constexpr std::string_view kBoxed = "\\boxed";
  size_t at = text.rfind(kBoxed);
  while (at != std::string_view::npos) {
    const size_t open = text.find_first_not_of(' ', at + kBoxed.size());
    const size_t end = open != std::string_view::npos && text[open] == '{' ? EndOfGroup(text, open) : text.npos;
    if (end != std::string_view::npos) return std::string(text.substr(open + 1, end - open - 2));
    if (at == 0) break;
    at = text.rfind(kBoxed, at - 1);
  }
  return std::nullopt;
}

std::optional<std::string> FinalNumber(std::string_view text) {
  constexpr std::string_view kMark = "####";
  if (const size_t mark = text.rfind(kMark); mark != std::string_view::npos) {
    return FindNumber(FirstLine(text.substr(mark + kMark.size())), /*last=*/false);
  }
  if (const auto boxed = LastBoxed(text)) {
    std::string content = *boxed;
    for (std::string_view space : {"\\!", "\\,", "{,}"}) ReplaceAll(&content, space, space == "{,}" ? "," : "");
    return FindNumber(content, /*last=*/true);
  }
  return FindNumber(text, /*last=*/true);
}

std::optional<char> LetterChoice(std::string_view text, int64_t num_choices) {
  if (const auto boxed = LastBoxed(text)) {
    const std::string content = *boxed;
    return LetterAt(content, SkipToChoice(Lower(content), 0), num_choices);
  }
  const std::string lower = Lower(text);
  for (size_t at = lower.rfind("answer"); at != std::string::npos;
       at = at == 0 ? lower.npos : lower.rfind("answer", at - 1)) {
    if (const auto letter = LetterAt(text, SkipToChoice(lower, at + 6), num_choices)) return letter;
  }
  for (size_t i = text.size(); i-- > 0;) {
    if (text[i] != '(') continue;
    if (const auto letter = LetterAt(text, i, num_choices)) return letter;
  }
  const std::string_view trimmed = Trim(text);
  if (const auto letter = LetterAt(trimmed, 0, num_choices)) {
    if (trimmed.size() == 1 || std::string_view(".):").find(trimmed[1]) != std::string_view::npos) return letter;
  }
  return std::nullopt;
}

std::optional<std::string> StatedAnswer(std::string_view text) {
  const std::string lower = Lower(text);
  for (std::string_view phrase : {"answer is", "answer:"}) {
    const size_t at = lower.rfind(phrase);
    if (at == std::string::npos) continue;
    std::string_view rest = text.substr(at + phrase.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" :*\n"), rest.size()));
    std::string_view answer = Trim(FirstLine(rest));
    while (!answer.empty() && std::string_view(".*").find(answer.back()) != std::string_view::npos)
      answer.remove_suffix(1);
    if (!answer.empty()) return std::string(answer);
  }
  return std::nullopt;
}

std::string NormaliseMath(std::string_view text) {
  std::string math(text);
  for (std::string_view left_out : {"\\left", "\\right", "\\!", "\\,", "\\;", "\\ ", "\\$", "$", "^\\circ", "^{\\circ}",
                                    "\\%", "%", " ", "\n", "\t"}) {
    ReplaceAll(&math, left_out, "");
  }
  for (std::string_view fraction : {"\\dfrac", "\\tfrac"}) ReplaceAll(&math, fraction, "\\frac");
  // Units behind a number; a text alone is the answer.
  if (const size_t unit = math.find("\\text{"); unit != std::string::npos) {
    if (unit > 0) math.erase(unit);
    if (unit == 0 && math.back() == '}') math = math.substr(6, math.size() - 7);
  }
  if (const size_t equals = math.find('='); equals != std::string::npos) math.erase(0, equals + 1);
  while (!math.empty() && math.back() == '.') math.pop_back();
  // \frac12 and 1/2.
  const size_t bare = math.find("\\frac");
  if (bare == 0 && math.size() == 7 && IsDigit(math[5]) && IsDigit(math[6])) {
    math = std::string("\\frac{") + math[5] + "}{" + math[6] + "}";
  }
  const size_t slash = math.find('/');
  const auto is_number = [](std::string_view part) {
    if (part.starts_with('-')) part.remove_prefix(1);
    return !part.empty() && std::all_of(part.begin(), part.end(), IsDigit);
  };
  if (slash != std::string::npos && is_number(math.substr(0, slash)) && is_number(math.substr(slash + 1))) {
    const bool is_negative = math.front() == '-';
    math = (is_negative ? "-" : "") + std::string("\\frac{") + math.substr(is_negative, slash - is_negative) + "}{" +
           math.substr(slash + 1) + "}";
  }
  // A plain number, grouped or not: one form.
  std::string digits;
  for (size_t i = 0; i < math.size(); ++i) {
    if (!IsGrouping(math, i)) digits += math[i];
  }
  const bool is_negative = digits.starts_with('-');
  if (is_negative) digits.erase(0, 1);
  const bool is_plain = !digits.empty() && std::count(digits.begin(), digits.end(), '.') <= 1 && digits.back() != '.' &&
                        std::all_of(digits.begin(), digits.end(), [](char c) { return IsDigit(c) || c == '.'; });
  return is_plain ? CanonicalNumber(is_negative, digits) : math;
}

}  // namespace winnow
