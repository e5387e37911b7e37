// Filters that make a text of a value's text.
#include <algorithm>

#include "model/chat_template/filters.h"
#include "model/chat_template/operators.h"
#include "model/chat_template/python_format.h"
#include "model/chat_template/python_text.h"
#include "model/chat_template/value_text.h"

namespace winnow::jinja {
namespace {

template <MarkedText (*map)(const MarkedText&)>
Result<Value> Map(const Value& value, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("filter", {}).status());
  WINNOW_ASSIGN_OR_RETURN(const MarkedText text, ToText(value));
  return Value(map(text));
}

Result<Value> Trim(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("trim", {"chars"}));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText text, ToText(value));
  if (!bound[0] || bound[0]->is_none()) return Value(Strip(text, std::nullopt, {}));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText* characters, TextOf(*bound[0], "trim"));
  return Value(Strip(text, characters->view(), {}));
}

Result<Value> ReplaceFilter(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("replace", {"old", "new", "count"}, 2));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText text, ToText(value));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText old, ToText(*bound[0]));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText replacement, ToText(*bound[1]));
  int64_t count = -1;
  if (bound[2] && !bound[2]->is_none()) {
    WINNOW_ASSIGN_OR_RETURN(count, IntegerOf(*bound[2], "replace: count"));
  }
  return Value(Replace(text, old.view(), replacement, count));
}

Result<MarkedText> Spaces(int64_t count) {
  if (count > int64_t(kMaxTextBytes))
    return InvalidArgument("expected a smaller width, found " + std::to_string(count));
  return MarkedText(std::string(size_t(std::max<int64_t>(count, 0)), ' '));
}

Result<Value> Indent(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("indent", {"width", "first", "blank"}));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText* text, TextOf(value, "indent"));
  MarkedText indention("    ");
  if (bound[0] && bound[0]->text()) {
    indention = bound[0]->text()->text;
  } else if (bound[0]) {
    WINNOW_ASSIGN_OR_RETURN(const int64_t width, IntegerOf(*bound[0], "indent: width"));
    WINNOW_ASSIGN_OR_RETURN(indention, Spaces(width));
  }
  const bool first = bound[1] && Truth(*bound[1]), blank = bound[2] && Truth(*bound[2]);
  MarkedText with_newline = *text;
  with_newline.Append("\n");
  MarkedText indented;
  const std::vector<MarkedText> lines = SplitLines(with_newline);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) indented.Append("\n");
    if (i == 0 ? first : blank || !lines[i].empty()) indented.Append(indention);
    indented.Append(lines[i]);
  }
  return Value(std::move(indented));
}

Result<Value> Center(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("center", {"width"}));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText text, ToText(value));
  int64_t width = 80;
  if (bound[0]) {
    WINNOW_ASSIGN_OR_RETURN(width, IntegerOf(*bound[0], "center: width"));
  }
  const int64_t margin = std::max<int64_t>(0, width - int64_t(CountCharacters(text.view())));
  const int64_t left = margin / 2 + (margin & width & 1);  // where Python puts the odd one
  WINNOW_ASSIGN_OR_RETURN(MarkedText centred, Spaces(left));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText right, Spaces(margin - left));
  centred.Append(text);
  centred.Append(right);
  return Value(std::move(centred));
}

Result<Value> Format(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const MarkedText* format, TextOf(value, "format"));
  if (!arguments.positional.empty() && !arguments.keywords.empty()) {
    return InvalidArgument("format: expected arguments all with names or all without");
  }
  Value values;
  if (arguments.keywords.empty()) {
    WINNOW_ASSIGN_OR_RETURN(values, MakeList(arguments.positional, ListKind::kTuple));
  } else {
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [name, argument] : arguments.keywords) entries.emplace_back(Value::OfText(name), argument);
    WINNOW_ASSIGN_OR_RETURN(values, MakeDict(std::move(entries)));
  }
  WINNOW_ASSIGN_OR_RETURN(MarkedText text, PercentFormat(*format, values));
  return Value(std::move(text));
}

struct NamedFilter {
  std::string_view name;
  Filter filter;
};
constexpr NamedFilter kFilters[] = {
    {"upper", Map<Upper>}, {"lower", Map<Lower>},      {"title", Map<TitleWords>}, {"capitalize", Map<Capitalize>},
    {"trim", Trim},        {"replace", ReplaceFilter}, {"indent", Indent},         {"center", Center},
    {"format", Format},
};

}  // namespace

Filter FindTextFilter(std::string_view name) {
  for (const NamedFilter& entry : kFilters) {
    if (entry.name == name) return entry.filter;
  }
  return nullptr;
}

}  // namespace winnow::jinja
