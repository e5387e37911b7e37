#include "model/chat_template/expression_parser.h"

#include <algorithm>
#include <cstdlib>

#include "model/chat_template/filters.h"
#include "model/chat_template/methods.h"
#include "model/chat_template/tests.h"

namespace winnow::jinja {
namespace {

struct NamedOperator {
  std::string_view text;
  Operator op;
};
constexpr NamedOperator kOperators[] = {
    {"+", Operator::kAdd},           {"-", Operator::kSubtract},     {"*", Operator::kMultiply},
    {"/", Operator::kDivide},        {"//", Operator::kFloorDivide}, {"%", Operator::kRemainder},
    {"**", Operator::kPower},        {"==", Operator::kEqual},       {"!=", Operator::kNotEqual},
    {"<", Operator::kLess},          {"<=", Operator::kLessEqual},   {">", Operator::kGreater},
    {">=", Operator::kGreaterEqual},
};

// The operator of the current token if it is one of `wanted`, a list with spaces around each.
const NamedOperator* Match(const TokenStream& stream, std::string_view wanted) {
  if (!stream.Is(TokenKind::kOperator)) return nullptr;
  if (wanted.find(" " + stream.current().text + " ") == std::string_view::npos) return nullptr;
  const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                   [&](const NamedOperator& op) { return op.text == stream.current().text; });
  return found == std::end(kOperators) ? nullptr : found;
}

}  // namespace

ExprPtr ExpressionParser::Make(ExprKind kind, int line, std::string name) {
  return std::make_unique<Expr>(Expr{.kind = kind, .line = line, .name = std::move(name)});
}

Status ExpressionParser::Add(ExprPtr operand, Expr* expr) {
  if (operand) expr->depth = std::max(expr->depth, 1 + operand->depth);
  expr->operands.push_back(std::move(operand));
  return CheckDepth(*expr);
}

Status ExpressionParser::CheckDepth(const Expr& expr) const {
  if (expr.depth <= stream_.limits().max_expression_depth) return OkStatus();
  return ErrorAt(expr.line, "expression deeper than " + std::to_string(stream_.limits().max_expression_depth));
}

Result<ExprPtr> ExpressionParser::MakeWith(ExprKind kind, int line, ExprPtr first, ExprPtr second) {
  ExprPtr expr = Make(kind, line);
  WINNOW_RETURN_IF_ERROR(Add(std::move(first), expr.get()));
  if (second) WINNOW_RETURN_IF_ERROR(Add(std::move(second), expr.get()));
  return expr;
}

Result<ExprPtr> ExpressionParser::ParseExpression() {
  const TokenStream::Nesting nesting(stream_);
  WINNOW_RETURN_IF_ERROR(nesting.Check());
  const int line = stream_.line();
  WINNOW_ASSIGN_OR_RETURN(ExprPtr value, ParseOr());
  while (stream_.SkipName("if")) {
    WINNOW_ASSIGN_OR_RETURN(ExprPtr condition, ParseOr());
    WINNOW_ASSIGN_OR_RETURN(value, MakeWith(ExprKind::kConditional, line, std::move(value), std::move(condition)));
    ExprPtr otherwise;
    if (stream_.SkipName("else")) {
      WINNOW_ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    WINNOW_RETURN_IF_ERROR(Add(std::move(otherwise), value.get()));
  }
  return value;
}

Result<ExprPtr> ExpressionParser::ParseOr() {
  WINNOW_ASSIGN_OR_RETURN(ExprPtr left, ParseAnd());
  while (stream_.IsName("or")) {
    const int line = stream_.Take().line;
    WINNOW_ASSIGN_OR_RETURN(ExprPtr right, ParseAnd());
    WINNOW_ASSIGN_OR_RETURN(left, MakeWith(ExprKind::kOr, line, std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::ParseAnd() {
  WINNOW_ASSIGN_OR_RETURN(ExprPtr left, ParseNot());
  while (stream_.IsName("and")) {
    const int line = stream_.Take().line;
    WINNOW_ASSIGN_OR_RETURN(ExprPtr right, ParseNot());
    WINNOW_ASSIGN_OR_RETURN(left, MakeWith(ExprKind::kAnd, line, std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::ParseNot() {
  if (!stream_.IsName("not")) return ParseCompare();
  const TokenStream::Nesting nesting(stream_);
  WINNOW_RETURN_IF_ERROR(nesting.Check());
  const int line = stream_.Take().line;
  WINNOW_ASSIGN_OR_RETURN(ExprPtr operand, ParseNot());
  return MakeWith(ExprKind::kNot, line, std::move(operand));
}

Result<ExprPtr> ExpressionParser::ParseCompare() {
  const int line = stream_.line();
  WINNOW_ASSIGN_OR_RETURN(ExprPtr first, ParseSum());
  ExprPtr compare;
  while (true) {
    const NamedOperator* match = Match(stream_, " == != < <= > >= ");
    const bool is_not_in =
        stream_.IsName("not") && stream_.next().kind == TokenKind::kName && stream_.next().text == "in";
    if (!match && !is_not_in && !stream_.IsName("in")) break;
    stream_.Take();
    if (is_not_in) stream_.Take();
    WINNOW_ASSIGN_OR_RETURN(ExprPtr right, ParseSum());
    if (!compare) {
      WINNOW_ASSIGN_OR_RETURN(compare, MakeWith(ExprKind::kCompare, line, std::move(first)));
    }
    compare->operators.push_back(match ? match->op : is_not_in ? Operator::kNotIn : Operator::kIn);
    WINNOW_RETURN_IF_ERROR(Add(std::move(right), compare.get()));
  }
  return compare ? std::move(compare) : std::move(first);
}

Result<ExprPtr> ExpressionParser::ParseLeftToRight(std::string_view operators, ExprKind kind, Parse parse_operand) {
  WINNOW_ASSIGN_OR_RETURN(ExprPtr left, (this->*parse_operand)());
  while (const NamedOperator* match = Match(stream_, operators)) {
    const int line = stream_.Take().line;
    WINNOW_ASSIGN_OR_RETURN(ExprPtr right, (this->*parse_operand)());
    WINNOW_ASSIGN_OR_RETURN(left, MakeWith(kind, line, std::move(left), std::move(right)));
    left->operators.push_back(match->op);
  }
  return left;
}

Result<ExprPtr> ExpressionParser::ParseSum() {
  return ParseLeftToRight(" + - ", ExprKind::kBinary, &ExpressionParser::ParseConcat);
}

Result<ExprPtr> ExpressionParser::ParseConcat() {
  const int line = stream_.line();
  WINNOW_ASSIGN_OR_RETURN(ExprPtr first, ParseProduct());
  if (!stream_.IsOperator("~")) return first;
  WINNOW_ASSIGN_OR_RETURN(ExprPtr concat, MakeWith(ExprKind::kConcat, line, std::move(first)));
  while (stream_.SkipOperator("~")) {
    WINNOW_ASSIGN_OR_RETURN(ExprPtr operand, ParseProduct());
    WINNOW_RETURN_IF_ERROR(Add(std::move(operand), concat.get()));
  }
  return concat;
}

Result<ExprPtr> ExpressionParser::ParseProduct() {
  return ParseLeftToRight(" * / // % ", ExprKind::kBinary, &ExpressionParser::ParsePower);
}

Result<ExprPtr> ExpressionParser::ParsePower() {
  return ParseLeftToRight(" ** ", ExprKind::kBinary, &ExpressionParser::ParseUnary);
}

Result<ExprPtr> ExpressionParser::ParseUnary(bool with_filter) {
  const TokenStream::Nesting nesting(stream_);
  WINNOW_RETURN_IF_ERROR(nesting.Check());
  ExprPtr value;
  if (stream_.IsOperator("-") || stream_.IsOperator("+")) {
    const Token& sign = stream_.Take();
    WINNOW_ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary(/*with_filter=*/false));
    const ExprKind kind = sign.text == "-" ? ExprKind::kNegative : ExprKind::kPositive;
    WINNOW_ASSIGN_OR_RETURN(value, MakeWith(kind, sign.line, std::move(operand)));
  } else {
    WINNOW_ASSIGN_OR_RETURN(value, ParsePrimary());
  }
  WINNOW_ASSIGN_OR_RETURN(value, ParsePostfix(std::move(value)));
  return with_filter ? ParseFilterExpression(std::move(value)) : std::move(value);
}

Result<ExprPtr> ExpressionParser::ParsePrimary() {
  const int line = stream_.line();
  if (stream_.Is(TokenKind::kName)) return ParseName();
  if (stream_.Is(TokenKind::kInteger) || stream_.Is(TokenKind::kFloat)) return ParseNumber();
  if (stream_.Is(TokenKind::kString)) {
    std::string text;
    while (stream_.Is(TokenKind::kString)) text += stream_.Take().text;
    ExprPtr constant = Make(ExprKind::kConstant, line);
    constant->constant = Value::OfText(text);
    return constant;
  }
  if (stream_.IsOperator("[")) return ParseList();
  if (stream_.IsOperator("{")) return ParseDict();
  if (!stream_.SkipOperator("(")) return stream_.Expected("an expression");
  if (stream_.SkipOperator(")")) return Make(ExprKind::kTuple, line);
  WINNOW_ASSIGN_OR_RETURN(ExprPtr inner, ParseTuple());
  WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator(")"));
  return inner;
}

Result<ExprPtr> ExpressionParser::ParseName() {
  const Token& token = stream_.Take();
  ExprPtr constant = Make(ExprKind::kConstant, token.line);
  if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
    constant->constant = Value(token.text == "true" || token.text == "True");
    return constant;
  }
  if (token.text == "none" || token.text == "None") {
    constant->constant = Value(None{});
    return constant;
  }
  special_names_.varargs |= token.text == "varargs";
  special_names_.kwargs |= token.text == "kwargs";
  special_names_.caller |= token.text == "caller";
  return Make(ExprKind::kName, token.line, token.text);
}

Result<ExprPtr> ExpressionParser::ParseNumber() {
  const Token& token = stream_.Take();
  ExprPtr constant = Make(ExprKind::kConstant, token.line);
  if (token.kind == TokenKind::kInteger) {
    constant->constant = Value(int64_t(std::strtoll(token.text.c_str(), nullptr, 10)));
  } else {
    constant->constant = Value(std::strtod(token.text.c_str(), nullptr));
  }
  return constant;
}

Result<ExprPtr> ExpressionParser::ParseList() {
  ExprPtr list = Make(ExprKind::kList, stream_.Take().line);
  while (!stream_.IsOperator("]")) {
    if (!list->operands.empty()) WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator(","));
    if (stream_.IsOperator("]")) break;
    WINNOW_ASSIGN_OR_RETURN(ExprPtr item, ParseExpression());
    WINNOW_RETURN_IF_ERROR(Add(std::move(item), list.get()));
  }
  WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator("]"));
  return list;
}

Result<ExprPtr> ExpressionParser::ParseDict() {
  ExprPtr dict = Make(ExprKind::kDict, stream_.Take().line);
  while (!stream_.IsOperator("}")) {
    if (!dict->operands.empty()) WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator(","));
    if (stream_.IsOperator("}")) break;
    WINNOW_ASSIGN_OR_RETURN(ExprPtr key, ParseExpression());
    WINNOW_RETURN_IF_ERROR(Add(std::move(key), dict.get()));
    WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator(":"));
    WINNOW_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
    WINNOW_RETURN_IF_ERROR(Add(std::move(value), dict.get()));
  }
  WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator("}"));
  return dict;
}

Result<ExprPtr> ExpressionParser::ParsePostfix(ExprPtr value) {
  while (true) {
    if (stream_.IsOperator(".") || stream_.IsOperator("[")) {
      WINNOW_ASSIGN_OR_RETURN(value, ParseSubscript(std::move(value)));
    } else if (stream_.IsOperator("(")) {
      WINNOW_ASSIGN_OR_RETURN(value, ParseCall(std::move(value)));
    } else {
      return value;
    }
  }
}

Result<ExprPtr> ExpressionParser::ParseFilterExpression(ExprPtr value) {
  while (true) {
    if (stream_.SkipOperator("|")) {
      WINNOW_ASSIGN_OR_RETURN(value, ParseFilter(std::move(value)));
    } else if (stream_.IsName("is")) {
      WINNOW_ASSIGN_OR_RETURN(value, ParseTest(std::move(value)));
    } else if (stream_.IsOperator("(")) {
      WINNOW_ASSIGN_OR_RETURN(value, ParseCall(std::move(value)));
    } else {
      return value;
    }
  }
}

Result<ExprPtr> ExpressionParser::ParseFilter(ExprPtr value) {
  const int line = stream_.line();
  WINNOW_ASSIGN_OR_RETURN(std::string name, stream_.ExpectAnyName());
  if (!IsFilter(name)) return ErrorAt(line, "filter '" + name + "' is not supported");
  ExprPtr filter = Make(ExprKind::kFilter, line, std::move(name));
  WINNOW_RETURN_IF_ERROR(Add(std::move(value), filter.get()));
  if (stream_.IsOperator("(")) WINNOW_RETURN_IF_ERROR(ParseArguments(filter.get()));
  return filter;
}

Result<ExprPtr> ExpressionParser::ParseBlockFilters(bool is_inline) {
  ExprPtr filters;
  while (is_inline || stream_.SkipOperator("|")) {
    is_inline = false;
    WINNOW_ASSIGN_OR_RETURN(filters, ParseFilter(std::move(filters)));
  }
  return filters;
}

Result<ExprPtr> ExpressionParser::ParseTest(ExprPtr value) {
  const int line = stream_.Take().line;
  const bool is_negated = stream_.SkipName("not");
  WINNOW_ASSIGN_OR_RETURN(std::string name, stream_.ExpectAnyName());
  if (!IsTest(name)) return ErrorAt(line, "test '" + name + "' is not supported");
  ExprPtr test = Make(ExprKind::kTest, line, std::move(name));
  WINNOW_RETURN_IF_ERROR(Add(std::move(value), test.get()));
  if (stream_.IsOperator("(")) {
    WINNOW_RETURN_IF_ERROR(ParseArguments(test.get()));
  } else if (stream_.IsName("is")) {
    return stream_.Error("a test behind a test: expected one");
  } else if ((stream_.Is(TokenKind::kName) && !stream_.IsName("else") && !stream_.IsName("or") &&
              !stream_.IsName("and")) ||
             stream_.Is(TokenKind::kString) || stream_.Is(TokenKind::kInteger) || stream_.Is(TokenKind::kFloat) ||
             stream_.IsOperator("[") || stream_.IsOperator("{")) {
    WINNOW_ASSIGN_OR_RETURN(ExprPtr argument, ParsePrimary());
    WINNOW_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    WINNOW_RETURN_IF_ERROR(Add(std::move(argument), test.get()));
  }
  return is_negated ? MakeWith(ExprKind::kNot, line, std::move(test)) : std::move(test);
}

Result<ExprPtr> ExpressionParser::ParseSubscript(ExprPtr object) {
  const Token& token = stream_.Take();
  if (token.text == ".") {
    if (stream_.Is(TokenKind::kInteger)) {
      WINNOW_ASSIGN_OR_RETURN(ExprPtr index, ParseNumber());
      return MakeWith(ExprKind::kItem, token.line, std::move(object), std::move(index));
    }
    WINNOW_ASSIGN_OR_RETURN(std::string name, stream_.ExpectAnyName());
    WINNOW_ASSIGN_OR_RETURN(ExprPtr attribute, MakeWith(ExprKind::kAttribute, token.line, std::move(object)));
    attribute->name = std::move(name);
    return attribute;
  }
  ExprPtr start;
  if (!stream_.IsOperator(":")) {
    WINNOW_ASSIGN_OR_RETURN(start, ParseExpression());
    if (stream_.SkipOperator("]")) {
      return MakeWith(ExprKind::kItem, token.line, std::move(object), std::move(start));
    }
  }
  WINNOW_ASSIGN_OR_RETURN(ExprPtr slice, MakeWith(ExprKind::kSlice, token.line, std::move(object)));
  WINNOW_RETURN_IF_ERROR(Add(std::move(start), slice.get()));
  for (int part = 0; part < 2; ++part) {
    ExprPtr bound;
    if (stream_.SkipOperator(":") && !stream_.IsOperator(":") && !stream_.IsOperator("]")) {
      WINNOW_ASSIGN_OR_RETURN(bound, ParseExpression());
    }
    WINNOW_RETURN_IF_ERROR(Add(std::move(bound), slice.get()));
  }
  WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator("]"));
  return slice;
}

Result<ExprPtr> ExpressionParser::ParseCall(ExprPtr callee) {
  const int line = stream_.line();
  if (callee->kind == ExprKind::kAttribute && !IsMethod(callee->name)) {
    return ErrorAt(line, "method '." + callee->name + "()' is not supported");
  }
  WINNOW_ASSIGN_OR_RETURN(ExprPtr call, MakeWith(ExprKind::kCall, line, std::move(callee)));
  WINNOW_RETURN_IF_ERROR(ParseArguments(call.get()));
  return call;
}

Status ExpressionParser::ParseArguments(Expr* call) {
  stream_.Take();  // (
  for (bool is_first = true; !stream_.IsOperator(")"); is_first = false) {
    if (!is_first) WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator(","));
    if (stream_.IsOperator(")")) break;
    if (stream_.IsOperator("*") || stream_.IsOperator("**")) {
      return stream_.Error("arguments unpacked by " + stream_.current().text + " are not supported");
    }
    std::string keyword;
    if (stream_.Is(TokenKind::kName) && stream_.next().kind == TokenKind::kOperator && stream_.next().text == "=") {
      keyword = stream_.Take().text;
      stream_.Take();
    } else if (!call->keywords.empty()) {
      return stream_.Error("argument without a name: expected it before those with names");
    }
    WINNOW_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
    if (keyword.empty()) {
      WINNOW_RETURN_IF_ERROR(Add(std::move(value), call));
    } else {
      call->depth = std::max(call->depth, 1 + value->depth);
      call->keywords.emplace_back(std::move(keyword), std::move(value));
      WINNOW_RETURN_IF_ERROR(CheckDepth(*call));
    }
  }
  return stream_.ExpectOperator(")");
}

Result<ExprPtr> ExpressionParser::ParseTuple(bool with_conditional, std::string_view end_name) {
  const int line = stream_.line();
  ExprPtr tuple, first;
  while (true) {
    const bool is_end = stream_.Is(TokenKind::kOutputEnd) || stream_.Is(TokenKind::kBlockEnd) ||
                        stream_.IsOperator(")") || (!end_name.empty() && stream_.IsName(end_name));
    if (tuple && is_end) break;
    WINNOW_ASSIGN_OR_RETURN(ExprPtr item, with_conditional ? ParseExpression() : ParseOr());
    if (!tuple && !stream_.IsOperator(",")) return item;
    if (!tuple) tuple = Make(ExprKind::kTuple, line);
    WINNOW_RETURN_IF_ERROR(Add(std::move(item), tuple.get()));
    if (!stream_.SkipOperator(",")) break;
  }
  return tuple;
}

Result<Target> ExpressionParser::ParseOneTarget(bool with_namespace) {
  const TokenStream::Nesting nesting(stream_);
  WINNOW_RETURN_IF_ERROR(nesting.Check());
  if (stream_.SkipOperator("(")) {
    WINNOW_ASSIGN_OR_RETURN(Target inner, ParseTarget(with_namespace));
    WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator(")"));
    return inner;
  }
  Target target;
  const int line = stream_.line();
  WINNOW_ASSIGN_OR_RETURN(target.name, stream_.ExpectAnyName());
  for (const char* reserved : {"true", "false", "none", "True", "False", "None"}) {
    if (target.name == reserved) return ErrorAt(line, "'" + target.name + "' cannot be assigned to");
  }
  if (with_namespace && stream_.SkipOperator(".")) {
    WINNOW_ASSIGN_OR_RETURN(target.attribute, stream_.ExpectAnyName());
  }
  return target;
}

Result<Target> ExpressionParser::ParseTarget(bool with_namespace, std::string_view end_name) {
  WINNOW_ASSIGN_OR_RETURN(Target first, ParseOneTarget(with_namespace));
  if (!stream_.IsOperator(",")) return first;
  Target tuple;
  tuple.is_tuple = true;
  tuple.parts.push_back(std::move(first));
  while (stream_.SkipOperator(",")) {
    if (stream_.IsOperator("=") || stream_.IsOperator(")") || (!end_name.empty() && stream_.IsName(end_name))) break;
    WINNOW_ASSIGN_OR_RETURN(Target next, ParseOneTarget(with_namespace));
    tuple.parts.push_back(std::move(next));
  }
  return tuple;
}

}  // namespace winnow::jinja
