#include "model/chat_template/filters.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "model/chat_template/operators.h"
#include "model/chat_template/python_text.h"
#include "model/chat_template/value_text.h"

namespace winnow::jinja {
namespace {

Result<Value> Default(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("default", {"default_value", "boolean"}));
  const bool counts = bound[1] && Truth(*bound[1]) ? Truth(value) : !value.is_undefined();
  return counts ? value : bound[0].value_or(Value::OfText(""));
}

Result<Value> ToJsonFilter(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound,
                          arguments.Bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = bound[0] && Truth(*bound[0]);
  style.sort_keys = bound[3] && Truth(*bound[3]);
  if (bound[1] && !bound[1]->is_none()) {
    if (bound[1]->text()) {
      style.indent = bound[1]->view();
    } else {
      WINNOW_ASSIGN_OR_RETURN(const int64_t spaces, IntegerOf(*bound[1], "tojson: indent"));
      if (spaces > kMaxValueDepth) return InvalidArgument("tojson: expected an indent of 100 or less");
      style.indent = std::string(size_t(std::max<int64_t>(spaces, 0)), ' ');
    }
    style.item_separator = ",";  // as json.dumps: the line break follows
  }
  if (bound[2] && !bound[2]->is_none()) {
    const List* pair = bound[2]->list();
    if (!pair || pair->items.size() != 2 || !pair->items[0].text() || !pair->items[1].text()) {
      return InvalidArgument("tojson: expected separators to be two texts");
    }
    style.item_separator = pair->items[0].view();
    style.key_separator = pair->items[1].view();
  }
  WINNOW_ASSIGN_OR_RETURN(MarkedText text, ToJson(value, style));
  return Value(std::move(text));
}

Result<Value> FromJsonFilter(const Value& value, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("from_json", {}).status());
  WINNOW_ASSIGN_OR_RETURN(const MarkedText* text, TextOf(value, "from_json"));
  int depth = 0;
  const auto keep_shallow = [&](int at, nlohmann::ordered_json::parse_event_t, nlohmann::ordered_json&) {
    depth = std::max(depth, at);
    return at <= kMaxValueDepth;
  };
  const auto json = nlohmann::ordered_json::parse(text->view(), keep_shallow, /*allow_exceptions=*/false);
  if (json.is_discarded() || depth > kMaxValueDepth) return InvalidArgument("from_json: expected JSON");
  return FromJson(json, !text->conversation().empty());
}

Result<Value> StringFilter(const Value& value, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("string", {}).status());
  if (value.text()) return value;
  WINNOW_ASSIGN_OR_RETURN(MarkedText text, ToText(value));
  return Value(std::move(text));
}

Result<Value> Safe(const Value& value, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("safe", {}).status());
  WINNOW_ASSIGN_OR_RETURN(MarkedText text, ToText(value));
  return Value(Text{std::move(text), /*is_markup=*/true});
}

Result<Value> Escape(const Value& value, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("escape", {}).status());
  if (value.text() && value.text()->is_markup) return value;
  WINNOW_ASSIGN_OR_RETURN(const MarkedText text, ToText(value));
  return Value(Text{EscapeHtml(text), /*is_markup=*/true});
}

// What Python's float() reads, with white space around it.
std::optional<double> ReadFloat(std::string_view text) {
  const MarkedText stripped = Strip(MarkedText(text), std::nullopt, {});
  std::string digits(stripped.view());
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.erase(0, 1);
  if (digits.empty() || digits[0] == '-') return std::nullopt;
  for (size_t i = 1; i + 1 < digits.size(); ++i) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (digits[i] == '_' && is_digit(digits[i - 1]) && is_digit(digits[i + 1])) digits.erase(i, 1);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::invalid_argument || end != digits.data() + digits.size()) return std::nullopt;
  if (digits.find('(') != std::string::npos) return std::nullopt;  // nan(...)
  if (error == std::errc::result_out_of_range) value = std::strtod(digits.c_str(), nullptr);
  return is_negative ? -value : value;
}

std::optional<int64_t> ReadInteger(std::string_view text, int base) {
  const MarkedText stripped = Strip(MarkedText(text), std::nullopt, {});
  std::string digits(stripped.view());
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.erase(0, 1);
  const char letter = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : '\0';
  if (letter && digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == letter) digits.erase(0, 2);
  if (digits.empty() || digits[0] == '-') return std::nullopt;
  if (is_negative) digits.insert(0, "-");
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> Truncate(double value) {
  if (!(std::abs(value) < 9.2e18)) return std::nullopt;  // neither NaN nor beyond int64
  return int64_t(value);
}

Result<Value> Int(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("int", {"default", "base"}));
  const Value otherwise = bound[0].value_or(Value(int64_t(0)));
  int64_t base = 10;
  if (bound[1]) {
    WINNOW_ASSIGN_OR_RETURN(base, IntegerOf(*bound[1], "int: base"));
  }
  if (base == 0) return InvalidArgument("int: expected a base of 2 to 36");
  if (const auto integer = ToInteger(value)) return Value(*integer);
  std::optional<double> number;
  if (value.number()) number = *value.number();
  if (value.text()) {
    const bool is_base = base >= 2 && base <= 36;
    if (const auto integer = is_base ? ReadInteger(value.view(), int(base)) : std::nullopt) return Value(*integer);
    number = ReadFloat(value.view());
  }
  const auto truncated = number ? Truncate(*number) : std::nullopt;
  return truncated ? Value(*truncated) : otherwise;
}

Result<Value> Float(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("float", {"default"}));
  if (IsNumber(value)) return Value(ToDouble(value));
  if (value.text()) {
    if (const auto number = ReadFloat(value.view())) return Value(*number);
  }
  return bound[0].value_or(Value(0.0));
}

Result<Value> Abs(const Value& value, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("abs", {}).status());
  if (const auto integer = ToInteger(value)) return *integer < 0 ? Negate(value) : Value(*integer);
  if (value.number()) return Value(std::abs(*value.number()));
  return InvalidArgument("abs: expected a number, found " + TypeName(value));
}

Result<Value> Round(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("round", {"precision", "method"}));
  int64_t precision = 0;
  if (bound[0]) {
    WINNOW_ASSIGN_OR_RETURN(precision, IntegerOf(*bound[0], "round: precision"));
  }
  const std::string_view method = bound[1] ? bound[1]->view() : "common";
  if (!IsNumber(value)) return InvalidArgument("round: expected a number, found " + TypeName(value));
  if (precision < 0 || precision > 15) return InvalidArgument("round: expected a precision of 0 to 15");
  if (method == "ceil" || method == "floor") {
    const double scale = std::pow(10.0, double(precision));
    const double scaled = ToDouble(value) * scale;
    return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
  }
  if (method != "common") return InvalidArgument("round: expected the method common, ceil or floor");
  if (const auto integer = ToInteger(value)) return Value(*integer);
  // To the nearest decimal, ties to even: what printing does.
  char digits[400];
  const auto end =
      std::to_chars(digits, digits + sizeof(digits), *value.number(), std::chars_format::fixed, int(precision));
  double rounded = *value.number();
  std::from_chars(digits, end.ptr, rounded);
  return Value(rounded);
}

struct NamedFilter {
  std::string_view name;
  Filter filter;
};
constexpr NamedFilter kFilters[] = {
    {"default", Default},
    {"d", Default},
    {"tojson", ToJsonFilter},
    {"from_json", FromJsonFilter},
    {"string", StringFilter},
    {"safe", Safe},
    {"escape", Escape},
    {"e", Escape},
    {"int", Int},
    {"float", Float},
    {"abs", Abs},
    {"round", Round},
};

Filter FindFilter(std::string_view name) {
  for (const NamedFilter& entry : kFilters) {
    if (entry.name == name) return entry.filter;
  }
  if (const Filter filter = FindTextFilter(name)) return filter;
  if (const Filter filter = FindListFilter(name)) return filter;
  return FindSelectFilter(name);
}

}  // namespace

bool IsFilter(std::string_view name) {
  return FindFilter(name) != nullptr;
}

Result<Value> ApplyFilter(std::string_view name, const Value& value, const Arguments& arguments) {
  const Filter filter = FindFilter(name);
  WINNOW_CHECK(filter != nullptr);
  return filter(value, arguments);
}

}  // namespace winnow::jinja
