// Expressions of a chat template, by Jinja's grammar. One parse.
#pragma once

#include <vector>

#include "base/status.h"
#include "model/chat_template/syntax.h"
#include "model/chat_template/token_stream.h"

namespace winnow::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  // All return BadFile naming line and construct for what is wrong, too deep or not supported: filters, tests and
  // methods that winnow does not have are found here, not when they are used.
  Result<ExprPtr> ParseExpression();
  // One expression, or several with commas between them.
  Result<ExprPtr> ParseTuple(bool with_conditional = true, std::string_view end_name = "");
  // The filters behind a | (or, inline, without the first one) that a block's text goes through; null: none.
  Result<ExprPtr> ParseBlockFilters(bool is_inline);
  Result<Target> ParseTarget(bool with_namespace, std::string_view end_name = "");

  // Whether varargs, kwargs, caller have been read since the last call, inside a macro.
  struct SpecialNames {
    bool varargs = false, kwargs = false, caller = false;
  };
  SpecialNames TakeSpecialNames() { return std::exchange(special_names_, {}); }
  void AddSpecialNames(const SpecialNames& names) {
    special_names_.varargs |= names.varargs;
    special_names_.kwargs |= names.kwargs;
    special_names_.caller |= names.caller;
  }

 private:
  using Parse = Result<ExprPtr> (ExpressionParser::*)();

  Result<ExprPtr> ParseOr();
  Result<ExprPtr> ParseAnd();
  Result<ExprPtr> ParseNot();
  Result<ExprPtr> ParseCompare();
  Result<ExprPtr> ParseSum();
  Result<ExprPtr> ParseConcat();
  Result<ExprPtr> ParseProduct();
  Result<ExprPtr> ParsePower();
  Result<ExprPtr> ParseUnary() { return ParseUnary(/*with_filter=*/true); }
  Result<ExprPtr> ParseUnary(bool with_filter);
  Result<ExprPtr> ParsePrimary();
  Result<ExprPtr> ParseName();
  Result<ExprPtr> ParseNumber();
  Result<ExprPtr> ParseList();
  Result<ExprPtr> ParseDict();
  Result<ExprPtr> ParsePostfix(ExprPtr value);
  Result<ExprPtr> ParseFilterExpression(ExprPtr value);
  Result<ExprPtr> ParseFilter(ExprPtr value);
  Result<ExprPtr> ParseTest(ExprPtr value);
  Result<ExprPtr> ParseSubscript(ExprPtr object);
  Result<ExprPtr> ParseCall(ExprPtr callee);
  Status ParseArguments(Expr* call);
  Result<ExprPtr> ParseLeftToRight(std::string_view operators, ExprKind kind, Parse parse_operand);
  Result<Target> ParseOneTarget(bool with_namespace);

  static ExprPtr Make(ExprKind kind, int line, std::string name = "");
  // With one operand more. Null operands stand for what is left out.
  Status Add(ExprPtr operand, Expr* expr);
  Status CheckDepth(const Expr& expr) const;
  Result<ExprPtr> MakeWith(ExprKind kind, int line, ExprPtr first, ExprPtr second = nullptr);

  TokenStream& stream_;
  SpecialNames special_names_;
};

}  // namespace winnow::jinja
