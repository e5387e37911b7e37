#include "model/chat_template/tests.h"

#include <algorithm>

#include "base/check.h"
#include "model/chat_template/filters.h"
#include "model/chat_template/operators.h"
#include "model/chat_template/python_text.h"
#include "model/chat_template/value_text.h"

namespace winnow::jinja {
namespace {

using Test = Result<bool> (*)(const Value& value, const Value& other);

struct NamedTest {
  std::string_view name;
  Test test;
  bool takes_other = false;
};

template <Operator kOperator>
Result<bool> Compare(const Value& value, const Value& other) {
  WINNOW_ASSIGN_OR_RETURN(const Value result, ApplyOperator(kOperator, value, other));
  return Truth(result);
}

// value % divisor, of whole numbers.
Result<bool> Divides(const Value& value, const Value& divisor, int64_t remainder) {
  WINNOW_ASSIGN_OR_RETURN(const Value rest, ApplyOperator(Operator::kRemainder, value, divisor));
  return Equal(rest, Value(remainder));
}

// Of ASCII letters, as everywhere here: at least one of the wanted case, none of the other.
Result<bool> HasCase(const Value& value, char first, char last) {
  WINNOW_ASSIGN_OR_RETURN(const MarkedText text, ToText(value));
  const char other = first == 'a' ? 'A' : 'a';
  bool found = false;
  for (const char c : text.view()) {
    if (c >= other && c <= other + 25) return false;
    found |= c >= first && c <= last;
  }
  return found;
}

bool IsSequence(const Value& value) {
  const List* list = value.list();
  if (list) return list->kind != ListKind::kIterator && list->kind != ListKind::kView;
  return value.text() || value.dict() || value.is_undefined();
}

bool IsSame(const Value& a, const Value& b) {
  if (a.integer() || b.integer()) return a.integer() && b.integer() && Equal(a, b);
  if (a.is_none() || a.is_bool() || a.name_space())
    return a.is_none() == b.is_none() && a.is_bool() == b.is_bool() && Equal(a, b);
  return (a.list() && a.list() == b.list()) || (a.dict() && a.dict() == b.dict()) || (a.text() && a.text() == b.text());
}

constexpr NamedTest kTests[] = {
    {"defined", [](const Value& v, const Value&) -> Result<bool> { return !v.is_undefined(); }},
    {"undefined", [](const Value& v, const Value&) -> Result<bool> { return v.is_undefined(); }},
    {"none", [](const Value& v, const Value&) -> Result<bool> { return v.is_none(); }},
    {"boolean", [](const Value& v, const Value&) -> Result<bool> { return v.is_bool(); }},
    {"true", [](const Value& v, const Value&) -> Result<bool> { return v.boolean() && *v.boolean(); }},
    {"false", [](const Value& v, const Value&) -> Result<bool> { return v.boolean() && !*v.boolean(); }},
    {"integer", [](const Value& v, const Value&) -> Result<bool> { return v.integer() != nullptr; }},
    {"float", [](const Value& v, const Value&) -> Result<bool> { return v.number() != nullptr; }},
    {"number", [](const Value& v, const Value&) -> Result<bool> { return IsNumber(v); }},
    {"string", [](const Value& v, const Value&) -> Result<bool> { return v.text() != nullptr; }},
    {"mapping", [](const Value& v, const Value&) -> Result<bool> { return v.dict() != nullptr; }},
    {"sequence", [](const Value& v, const Value&) -> Result<bool> { return IsSequence(v); }},
    {"iterable", [](const Value& v, const Value&) -> Result<bool> { return v.list() || v.loop() || IsSequence(v); }},
    {"callable",
     [](const Value& v, const Value&) -> Result<bool> { return v.is_callable() || v.is_undefined() || v.loop(); }},
    {"escaped", [](const Value& v, const Value&) -> Result<bool> { return v.text() && v.text()->is_markup; }},
    {"odd", [](const Value& v, const Value&) { return Divides(v, Value(int64_t(2)), 1); }},
    {"even", [](const Value& v, const Value&) { return Divides(v, Value(int64_t(2)), 0); }},
    {"lower", [](const Value& v, const Value&) { return HasCase(v, 'a', 'z'); }},
    {"upper", [](const Value& v, const Value&) { return HasCase(v, 'A', 'Z'); }},
    {"filter", [](const Value& v, const Value&) -> Result<bool> { return v.text() && IsFilter(v.view()); }},
    {"test", [](const Value& v, const Value&) -> Result<bool> { return v.text() && IsTest(v.view()); }},
    {"divisibleby", [](const Value& v, const Value& other) { return Divides(v, other, 0); }, true},
    {"sameas", [](const Value& v, const Value& other) -> Result<bool> { return IsSame(v, other); }, true},
    {"in", Compare<Operator::kIn>, true},
    {"eq", Compare<Operator::kEqual>, true},
    {"equalto", Compare<Operator::kEqual>, true},
    {"==", Compare<Operator::kEqual>, true},
    {"ne", Compare<Operator::kNotEqual>, true},
    {"!=", Compare<Operator::kNotEqual>, true},
    {"lt", Compare<Operator::kLess>, true},
    {"lessthan", Compare<Operator::kLess>, true},
    {"<", Compare<Operator::kLess>, true},
    {"le", Compare<Operator::kLessEqual>, true},
    {"<=", Compare<Operator::kLessEqual>, true},
    {"gt", Compare<Operator::kGreater>, true},
    {"greaterthan", Compare<Operator::kGreater>, true},
    {">", Compare<Operator::kGreater>, true},
    {"ge", Compare<Operator::kGreaterEqual>, true},
    {">=", Compare<Operator::kGreaterEqual>, true},
};

const NamedTest* FindTest(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const NamedTest& test) { return test.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace

bool IsTest(std::string_view name) {
  return FindTest(name) != nullptr;
}

Result<bool> ApplyTest(std::string_view name, const Value& value, const Arguments& arguments) {
  const NamedTest* test = FindTest(name);
  WINNOW_CHECK(test != nullptr);
  if (!test->takes_other) {
    WINNOW_RETURN_IF_ERROR(arguments.Bind(name, {}).status());
    return test->test(value, Value());
  }
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind(name, {"other"}, 1));
  return test->test(value, *bound[0]);
}

}  // namespace winnow::jinja
