#include "model/chat_template/python_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/chat_template/python_text.h"
#include "model/chat_template/value_text.h"

namespace winnow::jinja {
namespace {

// More makes no sense in a prompt, and costs memory.
constexpr int64_t kMaxWidth = 10'000;
constexpr int kMaxPrecision = 100;

struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ = or 0: by type
  char sign = '-';    // - + or a space
  bool zero = false, thousands = false, alternate = false;
  int64_t width = 0;
  std::optional<int> precision;
  char type = '\0';
};

// Digits at `at`, which moves behind them.
Result<int64_t> ReadNumber(std::string_view text, size_t* at) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + *at, text.data() + text.size(), number);
  if (error == std::errc::invalid_argument) return int64_t(0);
  if (error != std::errc() || number > kMaxWidth) {
    return InvalidArgument("format: expected widths and precisions of at most " + std::to_string(kMaxWidth));
  }
  *at = size_t(end - text.data());
  return number;
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

MarkedText Pad(const MarkedText& text, const Spec& spec, char default_align) {
  const int64_t missing = spec.width - int64_t(CountCharacters(text.view()));
  if (missing <= 0) return text;
  const char align = spec.align ? spec.align : default_align;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  MarkedText padded = Repeat(MarkedText(spec.fill), left);
  padded.Append(text);
  padded.Append(Repeat(MarkedText(spec.fill), missing - left));
  return padded;
}

std::string WithThousands(std::string digits) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (size_t i = whole; i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

// Sign, prefix and digits to the width: zeros go between sign and digits.
MarkedText PadNumber(bool is_negative, const std::string& prefix, std::string digits, const Spec& spec) {
  const std::string sign = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.thousands) digits = WithThousands(std::move(digits));
  const char align = spec.align ? spec.align : spec.zero ? '=' : '>';
  if (align == '=') {
    const std::string fill = spec.zero && spec.fill == " " ? "0" : spec.fill;
    const int64_t missing = spec.width - int64_t(sign.size() + prefix.size() + digits.size());
    MarkedText text(sign + prefix);
    text.Append(Repeat(MarkedText(fill), missing));
    text.Append(digits);
    return text;
  }
  return Pad(MarkedText(sign + prefix + digits), spec, '>');
}

MarkedText FormatInteger(int64_t value, const Spec& spec) {
  const uint64_t magnitude = value < 0 ? uint64_t(0) - uint64_t(value) : uint64_t(value);
  switch (spec.type) {
    case 'x':
      return PadNumber(value < 0, spec.alternate ? "0x" : "", fmt::format("{:x}", magnitude), spec);
    case 'X':
      return PadNumber(value < 0, spec.alternate ? "0X" : "", fmt::format("{:X}", magnitude), spec);
    case 'o':
      return PadNumber(value < 0, spec.alternate ? "0o" : "", fmt::format("{:o}", magnitude), spec);
    case 'b':
      return PadNumber(value < 0, spec.alternate ? "0b" : "", fmt::format("{:b}", magnitude), spec);
    default: {
      std::string digits = std::to_string(magnitude);
      if (spec.precision && int(digits.size()) < *spec.precision)
        digits.insert(0, size_t(*spec.precision) - digits.size(), '0');
      return PadNumber(value < 0, "", std::move(digits), spec);
    }
  }
}

MarkedText FormatFloat(double value, const Spec& spec) {
  const bool is_negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::abs(value);
  const int precision = spec.precision.value_or(6);
  const bool is_percent = spec.type == '%';
  std::string digits;
  switch (spec.type) {
    case 'e':
      digits = fmt::format("{:.{}e}", magnitude, precision);
      break;
    case 'E':
      digits = fmt::format("{:.{}E}", magnitude, precision);
      break;
    case 'g':
      digits = fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
      break;
    case 'G':
      digits = fmt::format("{:.{}G}", magnitude, std::max(precision, 1));
      break;
    default:
      digits = fmt::format("{:.{}f}", is_percent ? magnitude * 100 : magnitude, precision);
  }
  return PadNumber(is_negative, "", digits + (is_percent ? "%" : ""), spec);
}

MarkedText FormatText(const MarkedText& text, const Spec& spec, char default_align) {
  MarkedText shown = text;
  if (spec.precision) {
    const auto characters = Characters(text.view());
    if (size_t(*spec.precision) < characters.size()) shown = text.Part(0, characters[size_t(*spec.precision)].begin);
  }
  return Pad(shown, spec, default_align);
}

class PercentFormatter {
 public:
  PercentFormatter(const MarkedText& format, const Value& values) : format_(format), values_(values) {}

  Result<MarkedText> Run() {
    const std::string_view text = format_.view();
    size_t at = 0;
    while (true) {
      const size_t percent = text.find('%', at);
      if (percent == std::string_view::npos) break;
      out_.AppendPart(format_, at, percent);
      at = percent + 1;
      WINNOW_RETURN_IF_ERROR(TakeField(text, &at));
    }
    out_.AppendPart(format_, at, text.size());
    const bool is_tuple = values_.list() && values_.list()->kind == ListKind::kTuple;
    const size_t given = is_tuple ? values_.list()->items.size() : 1;
    const bool may_be_left = !is_tuple && (values_.dict() || values_.list());
    if (num_used_ < given && !by_name_ && !may_be_left) return InvalidArgument("%: not all values are used");
    return std::move(out_);
  }

 private:
  Status TakeField(std::string_view text, size_t* at) {
    const auto has = [&] { return *at < text.size(); };
    std::optional<std::string> name;
    if (has() && text[*at] == '(') {
      const size_t end = text.find(')', *at);
      if (end == std::string_view::npos) return InvalidArgument("%: expected ) behind a name");
      name = std::string(text.substr(*at + 1, end - *at - 1));
      *at = end + 1;
    }
    Spec spec;
    for (; has() && std::string_view("-+ 0#").find(text[*at]) != std::string_view::npos; ++*at) {
      if (text[*at] == '-') spec.align = '<';
      if (text[*at] == '+' || (text[*at] == ' ' && spec.sign == '-')) spec.sign = text[*at];
      if (text[*at] == '0') spec.zero = true;
      if (text[*at] == '#') spec.alternate = true;
    }
    WINNOW_ASSIGN_OR_RETURN(spec.width, ReadNumber(text, at));
    if (has() && text[*at] == '.') {
      ++*at;
      WINNOW_ASSIGN_OR_RETURN(const int64_t precision, ReadNumber(text, at));
      if (precision > kMaxPrecision) return InvalidArgument("%: expected a precision of at most 100");
      spec.precision = int(precision);
    }
    if (!has()) return InvalidArgument("%: incomplete format");
    spec.type = text[(*at)++];
    if (spec.type == '%') {
      out_.Append("%");
      return OkStatus();
    }
    WINNOW_ASSIGN_OR_RETURN(const Value value, NextValue(name));
    return Append(value, spec);
  }

  Result<Value> NextValue(const std::optional<std::string>& name) {
    if (name) {
      by_name_ = true;
      if (!values_.dict()) return InvalidArgument("%: expected a dict for %(name)s");
      const Value* value = values_.dict()->Find(*name);
      return value ? Result<Value>(*value) : InvalidArgument("%: no value has the name '" + *name + "'");
    }
    const size_t index = num_used_++;
    if (const List* list = values_.list(); list && list->kind == ListKind::kTuple) {
      if (index < list->items.size()) return list->items[index];
    } else if (index == 0) {
      return values_;
    }
    return InvalidArgument("%: not enough values");
  }

  Status Append(const Value& value, const Spec& spec) {
    if (spec.type == 's' || spec.type == 'r') {
      WINNOW_ASSIGN_OR_RETURN(const MarkedText text, spec.type == 's' ? ToText(value) : ToRepr(value));
      out_.Append(FormatText(text, spec, '>'));
      return OkStatus();
    }
    if (spec.type == 'c' && value.text() && CountCharacters(value.view()) == 1) {
      out_.Append(FormatText(value.text()->text, spec, '>'));
      return OkStatus();
    }
    if (std::string_view("diuxXofFeEgG").find(spec.type) == std::string_view::npos) {
      return InvalidArgument(std::string("%: format '%") + spec.type + "' is not supported");
    }
    if (!IsNumber(value)) {
      return InvalidArgument(std::string("%") + spec.type + ": expected a number, found " + TypeName(value));
    }
    if (std::string_view("fFeEgG").find(spec.type) != std::string_view::npos) {
      out_.Append(FormatFloat(ToDouble(value), spec));
      return OkStatus();
    }
    if (!ToInteger(value) &&
        (std::string_view("diu").find(spec.type) == std::string_view::npos || !(std::abs(ToDouble(value)) < 9e18))) {
      return InvalidArgument(std::string("%") + spec.type + ": expected an int, found " + TypeName(value));
    }
    out_.Append(FormatInteger(ToInteger(value).value_or(int64_t(ToDouble(value))), spec));
    return OkStatus();
  }

  const MarkedText& format_;
  const Value& values_;
  MarkedText out_;
  size_t num_used_ = 0;
  bool by_name_ = false;
};

Result<Spec> ReadSpec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const auto peek = [&](size_t i) { return i < text.size() ? text[i] : '\0'; };
  const auto characters = Characters(text);
  if (characters.size() >= 2 && is_align(text[characters[1].begin])) {
    spec.fill = text.substr(0, characters[0].end);
    spec.align = text[characters[1].begin];
    at = characters[1].end;
  } else if (is_align(peek(0))) {
    spec.align = text[at++];
  }
  if (peek(at) == '+' || peek(at) == '-' || peek(at) == ' ') spec.sign = text[at++];
  if (peek(at) == '#') spec.alternate = (++at, true);
  if (peek(at) == '0') spec.zero = (++at, true);
  WINNOW_ASSIGN_OR_RETURN(spec.width, ReadNumber(text, &at));
  if (peek(at) == ',') spec.thousands = (++at, true);
  if (peek(at) == '.') {
    ++at;
    if (!IsDigit(peek(at))) return InvalidArgument("format: expected a precision behind the point");
    WINNOW_ASSIGN_OR_RETURN(const int64_t precision, ReadNumber(text, &at));
    if (precision > kMaxPrecision) return InvalidArgument("format: expected a precision of at most 100");
    spec.precision = int(precision);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size() || (spec.type && std::string_view("sdxXobfFeEgG%").find(spec.type) == std::string_view::npos)) {
    return InvalidArgument("format: '" + std::string(text.substr(0, 40)) + "' is not supported");
  }
  return spec;
}

Result<MarkedText> FormatValue(const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return ToText(value);
  WINNOW_ASSIGN_OR_RETURN(const Spec spec, ReadSpec(spec_text));
  const bool wants_float = std::string_view("fFeEgG%").find(spec.type) != std::string_view::npos && spec.type != '\0';
  if (IsNumber(value) && (wants_float || (value.number() && spec.type == '\0' && spec.precision))) {
    if (!wants_float) return InvalidArgument("format: expected a type behind the precision of a float");
    return FormatFloat(ToDouble(value), spec);
  }
  if (value.is_bool() && spec.type == '\0')
    return FormatText(MarkedText(*value.boolean() ? "True" : "False"), spec, '<');
  if (ToInteger(value) && spec.type != 's') {
    if (spec.precision) return InvalidArgument("format: no precision is allowed for an int");
    return FormatInteger(*ToInteger(value), spec);
  }
  if (value.number() && spec.type == '\0') {
    const std::string digits = FloatText(std::abs(*value.number()));
    return PadNumber(std::signbit(*value.number()), "", digits, spec);
  }
  if (!value.text() || (spec.type != '\0' && spec.type != 's') || spec.align == '=' || spec.thousands) {
    return InvalidArgument("format: '" + std::string(spec_text.substr(0, 40)) + "' does not fit a " + TypeName(value));
  }
  Spec of_text = spec;
  if (spec.zero && !spec.align && spec.fill == " ") of_text.fill = "0";
  return FormatText(value.text()->text, of_text, '<');
}

}  // namespace

Result<MarkedText> PercentFormat(const MarkedText& format, const Value& values) {
  return PercentFormatter(format, values).Run();
}

Result<MarkedText> BraceFormat(const MarkedText& format, const Arguments& arguments) {
  const std::string_view text = format.view();
  MarkedText out;
  size_t next_index = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t brace = std::min(text.find_first_of("{}", at), text.size());
    out.AppendPart(format, at, brace);
    at = brace;
    if (at == text.size()) break;
    if (at + 1 < text.size() && text[at + 1] == text[at]) {
      out.AppendPart(format, at, at + 1);
      at += 2;
      continue;
    }
    const size_t end = text.find('}', at);
    if (text[at] == '}' || end == std::string_view::npos) return InvalidArgument("format: a single brace");
    std::string_view field = text.substr(at + 1, end - at - 1), spec;
    at = end + 1;
    if (field.find('{') != std::string_view::npos) return InvalidArgument("format: nested fields are not supported");
    if (const size_t colon = field.find(':'); colon != std::string_view::npos) {
      spec = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    char conversion = '\0';
    if (field.size() >= 2 && field[field.size() - 2] == '!') {
      conversion = field.back();
      field.remove_suffix(2);
    }
    Value value;
    if (field.empty() || std::all_of(field.begin(), field.end(), IsDigit)) {
      size_t index = next_index;
      if (field.empty()) {
        ++next_index;
      } else if (field.size() > 6) {
        return InvalidArgument("format: no value has this number");
      } else {
        index = size_t(std::stoi(std::string(field)));
      }
      if (index >= arguments.positional.size()) return InvalidArgument("format: not enough values");
      value = arguments.positional[index];
    } else {
      const auto found = std::find_if(arguments.keywords.begin(), arguments.keywords.end(),
                                      [&](const auto& keyword) { return keyword.first == field; });
      if (found == arguments.keywords.end()) {
        return InvalidArgument("format: no value has the name '" + std::string(field.substr(0, 40)) + "'");
      }
      value = found->second;
    }
    if (conversion == 'r' || conversion == 's') {
      WINNOW_ASSIGN_OR_RETURN(MarkedText converted, conversion == 'r' ? ToRepr(value) : ToText(value));
      value = Value(std::move(converted));
    } else if (conversion) {
      return InvalidArgument("format: only !s and !r are supported");
    }
    WINNOW_ASSIGN_OR_RETURN(const MarkedText formatted, FormatValue(value, spec));
    out.Append(formatted);
  }
  return out;
}

}  // namespace winnow::jinja
