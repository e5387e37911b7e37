#include "model/chat_template/operators.h"

#include <algorithm>
#include <cmath>

#include "model/chat_template/python_format.h"
#include "model/chat_template/python_text.h"
#include "model/chat_template/value_text.h"

namespace winnow::jinja {
namespace {

constexpr std::string_view kSymbols[] = {
    "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

Status Refused(Operator op, const Value& left, const Value& right) {
  if (left.is_undefined()) return InvalidArgument(left.undefined()->what);
  if (right.is_undefined()) return InvalidArgument(right.undefined()->what);
  return InvalidArgument("unsupported operand types for " + std::string(kSymbols[size_t(op)]) + ": '" + TypeName(left) +
                         "' and '" + TypeName(right) + "'");
}

Status TooLarge() {
  return InvalidArgument("integer of 2^63 or more");
}

Result<Value> PowerOfIntegers(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return InvalidArgument("0 cannot be raised to a negative power");
    return Value(std::pow(double(base), double(exponent)));
  }
  int64_t power = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(power, base, &power)) return TooLarge();
    if (power == 0 || power == 1) break;                                            // of 0 and 1
    if (power == -1) return Value((exponent % 2 != 0) ? int64_t(-1) : int64_t(1));  // of -1
  }
  return Value(power);
}

Result<Value> OfIntegers(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::kAdd:
      return __builtin_add_overflow(a, b, &result) ? Result<Value>(TooLarge()) : Value(result);
    case Operator::kSubtract:
      return __builtin_sub_overflow(a, b, &result) ? Result<Value>(TooLarge()) : Value(result);
    case Operator::kMultiply:
      return __builtin_mul_overflow(a, b, &result) ? Result<Value>(TooLarge()) : Value(result);
    case Operator::kPower:
      return PowerOfIntegers(a, b);
    default:
      break;
  }
  if (b == 0) return InvalidArgument("division by zero");
  if (op == Operator::kDivide) return Value(double(a) / double(b));
  if (b == -1) {
    if (op == Operator::kRemainder) return Value(int64_t(0));
    return __builtin_sub_overflow(int64_t(0), a, &result) ? Result<Value>(TooLarge()) : Value(result);
  }
  // Python rounds down, and a remainder has the sign of the divisor.
  const int64_t remainder = a % b;
  const bool rounds_down = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == Operator::kFloorDivide) return Value(a / b - (rounds_down ? 1 : 0));
  return Value(remainder + (rounds_down ? b : 0));
}

Result<Value> OfNumbers(Operator op, const Value& left, const Value& right) {
  const auto x = ToInteger(left), y = ToInteger(right);
  if (x && y) return OfIntegers(op, *x, *y);
  const double a = ToDouble(left), b = ToDouble(right);
  switch (op) {
    case Operator::kAdd:
      return Value(a + b);
    case Operator::kSubtract:
      return Value(a - b);
    case Operator::kMultiply:
      return Value(a * b);
    case Operator::kPower: {
      const double power = std::pow(a, b);
      if (std::isnan(power) || std::isinf(power)) return InvalidArgument("power out of range");
      return Value(power);
    }
    default:
      break;
  }
  if (b == 0) return InvalidArgument("division by zero");
  if (op == Operator::kDivide) return Value(a / b);
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (op == Operator::kRemainder) return Value(remainder == 0 ? std::copysign(0.0, b) : remainder);
  return Value(std::floor((a - remainder) / b + 0.5));
}

Result<Value> Concatenate(const List& left, const List& right) {
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return MakeList(std::move(items), left.kind);
}

bool IsListOrTuple(const Value& value) {
  const List* list = value.list();
  return list && (list->kind == ListKind::kList || list->kind == ListKind::kTuple);
}

// Adding to HTML escapes what is not HTML itself.
MarkedText AsHtml(const Text& text) {
  return text.is_markup ? text.text : EscapeHtml(text.text);
}

Result<Value> Add(const Value& left, const Value& right) {
  const Text *a = left.text(), *b = right.text();
  if (a && b) {
    const bool is_markup = a->is_markup || b->is_markup;
    MarkedText sum = is_markup ? AsHtml(*a) : a->text;
    sum.Append(is_markup ? AsHtml(*b) : b->text);
    return Value(Text{std::move(sum), is_markup});
  }
  if (IsListOrTuple(left) && IsListOrTuple(right) && left.list()->kind == right.list()->kind) {
    return Concatenate(*left.list(), *right.list());
  }
  return Refused(Operator::kAdd, left, right);
}

Result<Value> Multiply(const Value& left, const Value& right) {
  const Value& repeated = ToInteger(left) ? right : left;
  const auto count = ToInteger(ToInteger(left) ? left : right);
  if (!count) return Refused(Operator::kMultiply, left, right);
  if (repeated.text()) return Value(Text{Repeat(repeated.text()->text, *count), repeated.text()->is_markup});
  if (!IsListOrTuple(repeated)) return Refused(Operator::kMultiply, left, right);
  const auto& items = repeated.list()->items;
  std::vector<Value> all;
  for (int64_t i = 0; i < *count && !items.empty(); ++i) {
    if (int64_t(all.size() + items.size()) > kMaxValueSize) return InvalidArgument("list too long");
    all.insert(all.end(), items.begin(), items.end());
  }
  return MakeList(std::move(all), repeated.list()->kind);
}

Result<Value> Ordered(Operator op, const Value& left, const Value& right) {
  const bool is_swapped = op == Operator::kGreater || op == Operator::kLessEqual;
  const bool is_nan = (left.number() && std::isnan(*left.number())) || (right.number() && std::isnan(*right.number()));
  WINNOW_ASSIGN_OR_RETURN(const bool less, is_swapped ? Less(right, left) : Less(left, right));
  const bool is_negated = op == Operator::kLessEqual || op == Operator::kGreaterEqual;
  return Value(!is_nan && less != is_negated);
}

}  // namespace

Result<bool> Contains(const Value& container, const Value& needle) {
  if (container.text()) {
    if (needle.text()) return FindText(container.view(), needle.view()) != std::string_view::npos;
    if (needle.is_undefined()) return InvalidArgument(needle.undefined()->what);
    return InvalidArgument("'in <string>' requires string as left operand, not " + TypeName(needle));
  }
  if (const Dict* dict = container.dict()) return dict->Find(needle) != nullptr;
  if (!container.list() && !container.is_undefined()) {
    return InvalidArgument("argument of type '" + TypeName(container) + "' is not iterable");
  }
  WINNOW_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(container));
  return std::any_of(items.begin(), items.end(), [&](const Value& item) { return Equal(item, needle); });
}

Result<Value> Negate(const Value& value) {
  int64_t negative = 0;
  if (const auto integer = ToInteger(value)) {
    return __builtin_sub_overflow(int64_t(0), *integer, &negative) ? Result<Value>(TooLarge()) : Value(negative);
  }
  if (value.number()) return Value(-*value.number());
  if (value.is_undefined()) return InvalidArgument(value.undefined()->what);
  return InvalidArgument("bad operand type for unary -: '" + TypeName(value) + "'");
}

Result<Value> ApplyOperator(Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::kEqual:
      return Value(Equal(left, right));
    case Operator::kNotEqual:
      return Value(!Equal(left, right));
    case Operator::kLess:
    case Operator::kLessEqual:
    case Operator::kGreater:
    case Operator::kGreaterEqual:
      return Ordered(op, left, right);
    case Operator::kIn:
    case Operator::kNotIn: {
      WINNOW_ASSIGN_OR_RETURN(const bool contains, Contains(right, left));
      return Value(contains == (op == Operator::kIn));
    }
    default:
      break;
  }
  if (IsNumber(left) && IsNumber(right)) return OfNumbers(op, left, right);
  if (op == Operator::kAdd) return Add(left, right);
  if (op == Operator::kMultiply) return Multiply(left, right);
  if (op == Operator::kRemainder && left.text()) {
    WINNOW_ASSIGN_OR_RETURN(MarkedText text, PercentFormat(left.text()->text, right));
    return Value(std::move(text));
  }
  return Refused(op, left, right);
}

}  // namespace winnow::jinja
