// The part of the evaluator that makes values of expressions.
#include "model/chat_template/attributes.h"
#include "model/chat_template/evaluator.h"
#include "model/chat_template/filters.h"
#include "model/chat_template/operators.h"
#include "model/chat_template/tests.h"
#include "model/chat_template/value_text.h"

namespace winnow::jinja {
namespace {

// Steps that going through a value costs: one for 16 numbers or a kilobyte.
int64_t Cost(const Value& value) {
  return value.size() / 16;
}

}  // namespace

Result<Value> Evaluator::Evaluate(const Expr& expr, const ScopePtr& scope) {
  const Depth depth(*this);
  WINNOW_RETURN_IF_ERROR(depth.Check());
  WINNOW_RETURN_IF_ERROR(Spend(1));
  line_ = expr.line;
  auto value = EvaluateInside(expr, scope);
  if (!value.ok()) return value;
  // What was there before costs nothing.
  switch (expr.kind) {
    case ExprKind::kConstant:
    case ExprKind::kName:
    case ExprKind::kAttribute:
    case ExprKind::kItem:
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kConditional:
      return value;
    default:
      line_ = expr.line;
      WINNOW_RETURN_IF_ERROR(SpendOn(*value));
      return value;
  }
}

Result<Value> Evaluator::EvaluateInside(const Expr& expr, const ScopePtr& scope) {
  const auto operand = [&](size_t i) { return Evaluate(*expr.operands[i], scope); };
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.constant;
    case ExprKind::kName:
      return EvaluateName(expr, *scope);
    case ExprKind::kList:
    case ExprKind::kTuple:
    case ExprKind::kDict:
      return EvaluateCollection(expr, scope);
    case ExprKind::kAttribute: {
      WINNOW_ASSIGN_OR_RETURN(const Value object, operand(0));
      line_ = expr.line;
      return GetAttribute(object, expr.name);
    }
    case ExprKind::kItem: {
      WINNOW_ASSIGN_OR_RETURN(const Value object, operand(0));
      WINNOW_ASSIGN_OR_RETURN(const Value index, operand(1));
      if (object.text()) WINNOW_RETURN_IF_ERROR(Spend(Cost(object)));
      return GetItem(object, index);
    }
    case ExprKind::kSlice:
      return EvaluateSlice(expr, scope);
    case ExprKind::kCall: {
      WINNOW_ASSIGN_OR_RETURN(const Value callee, operand(0));
      WINNOW_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(expr, scope));
      line_ = expr.line;
      return Call(callee, arguments);
    }
    case ExprKind::kFilter:
      return EvaluateFilter(expr, Value(), scope);
    case ExprKind::kTest:
      return EvaluateTest(expr, scope);
    case ExprKind::kNot: {
      WINNOW_ASSIGN_OR_RETURN(const Value value, operand(0));
      return Value(!Truth(value));
    }
    case ExprKind::kNegative: {
      WINNOW_ASSIGN_OR_RETURN(const Value value, operand(0));
      return Negate(value);
    }
    case ExprKind::kPositive: {
      WINNOW_ASSIGN_OR_RETURN(const Value value, operand(0));
      if (!IsNumber(value)) return InvalidArgument("bad operand type for unary +: '" + TypeName(value) + "'");
      return ToInteger(value) ? Value(*ToInteger(value)) : value;
    }
    case ExprKind::kBinary: {
      WINNOW_ASSIGN_OR_RETURN(const Value left, operand(0));
      WINNOW_ASSIGN_OR_RETURN(const Value right, operand(1));
      line_ = expr.line;
      return ApplyOperator(expr.operators[0], left, right);
    }
    case ExprKind::kCompare:
      return EvaluateCompare(expr, scope);
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      WINNOW_ASSIGN_OR_RETURN(Value left, operand(0));
      if (Truth(left) == (expr.kind == ExprKind::kOr)) return left;
      return operand(1);
    }
    case ExprKind::kConcat:
      return EvaluateConcat(expr, scope);
    case ExprKind::kConditional: {
      WINNOW_ASSIGN_OR_RETURN(const Value condition, operand(1));
      if (Truth(condition)) return operand(0);
      if (expr.operands[2]) return operand(2);
      return Value(Undefined{"the inline if-expression evaluated to false and no else section was defined"});
    }
  }
  return InternalError("unknown expression");
}

Result<Value> Evaluator::EvaluateName(const Expr& expr, const Scope& scope) {
  if (const Value* value = scope.Find(expr.name)) return *value;
  return Value(Undefined{"'" + expr.name + "' is undefined"});
}

Result<Value> Evaluator::EvaluateCollection(const Expr& expr, const ScopePtr& scope) {
  std::vector<Value> values;
  for (const ExprPtr& operand : expr.operands) {
    WINNOW_ASSIGN_OR_RETURN(Value value, Evaluate(*operand, scope));
    values.push_back(std::move(value));
  }
  if (expr.kind != ExprKind::kDict) {
    return MakeList(std::move(values), expr.kind == ExprKind::kTuple ? ListKind::kTuple : ListKind::kList);
  }
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i + 1 < values.size(); i += 2) entries.emplace_back(values[i], values[i + 1]);
  return MakeDict(std::move(entries));
}

Result<Value> Evaluator::EvaluateSlice(const Expr& expr, const ScopePtr& scope) {
  WINNOW_ASSIGN_OR_RETURN(const Value object, Evaluate(*expr.operands[0], scope));
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!expr.operands[i + 1]) continue;
    WINNOW_ASSIGN_OR_RETURN(const Value bound, Evaluate(*expr.operands[i + 1], scope));
    if (bound.is_none()) continue;
    WINNOW_ASSIGN_OR_RETURN(bounds[i], IntegerOf(bound, "slice"));
  }
  WINNOW_RETURN_IF_ERROR(Spend(Cost(object)));
  return GetSlice(object, {bounds[0], bounds[1], bounds[2]});
}

Result<Value> Evaluator::EvaluateCompare(const Expr& expr, const ScopePtr& scope) {
  WINNOW_ASSIGN_OR_RETURN(Value left, Evaluate(*expr.operands[0], scope));
  Value result(true);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    WINNOW_ASSIGN_OR_RETURN(Value right, Evaluate(*expr.operands[i + 1], scope));
    line_ = expr.line;
    WINNOW_RETURN_IF_ERROR(Spend(Cost(left) + Cost(right)));
    WINNOW_ASSIGN_OR_RETURN(result, ApplyOperator(expr.operators[i], left, right));
    if (!Truth(result)) return result;
    left = std::move(right);
  }
  return result;
}

Result<Value> Evaluator::EvaluateConcat(const Expr& expr, const ScopePtr& scope) {
  MarkedText text;
  for (const ExprPtr& operand : expr.operands) {
    WINNOW_ASSIGN_OR_RETURN(const Value value, Evaluate(*operand, scope));
    WINNOW_ASSIGN_OR_RETURN(const MarkedText part, ToText(value));
    text.Append(part);
  }
  return Value(std::move(text));
}

Result<Arguments> Evaluator::EvaluateArguments(const Expr& call, const ScopePtr& scope) {
  Arguments arguments;
  for (size_t i = 1; i < call.operands.size(); ++i) {
    WINNOW_ASSIGN_OR_RETURN(Value value, Evaluate(*call.operands[i], scope));
    arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, expr] : call.keywords) {
    WINNOW_ASSIGN_OR_RETURN(Value value, Evaluate(*expr, scope));
    arguments.keywords.emplace_back(name, std::move(value));
  }
  return arguments;
}

Result<Value> Evaluator::EvaluateFilter(const Expr& expr, const Value& value, const ScopePtr& scope) {
  Value operand = value;
  if (const ExprPtr& inner = expr.operands[0]) {
    const bool is_block_filter = inner->kind == ExprKind::kFilter;
    WINNOW_ASSIGN_OR_RETURN(operand, is_block_filter ? EvaluateFilter(*inner, value, scope) : Evaluate(*inner, scope));
  }
  WINNOW_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(expr, scope));
  line_ = expr.line;
  WINNOW_RETURN_IF_ERROR(Spend(Cost(operand)));
  WINNOW_ASSIGN_OR_RETURN(Value result, ApplyFilter(expr.name, operand, arguments));
  WINNOW_RETURN_IF_ERROR(SpendOn(result));
  return result;
}

Result<Value> Evaluator::EvaluateTest(const Expr& expr, const ScopePtr& scope) {
  WINNOW_ASSIGN_OR_RETURN(const Value value, Evaluate(*expr.operands[0], scope));
  WINNOW_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(expr, scope));
  if (!arguments.positional.empty()) {
    WINNOW_RETURN_IF_ERROR(Spend(Cost(value) + Cost(arguments.positional[0])));
  }
  WINNOW_ASSIGN_OR_RETURN(const bool holds, ApplyTest(expr.name, value, arguments));
  return Value(holds);
}

}  // namespace winnow::jinja
