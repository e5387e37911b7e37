// A chat template as a tree. Made by the parser, never changed; any thread may read it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/chat_template/value.h"

namespace winnow::jinja {

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kRemainder,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

// What `operands` are:
enum class ExprKind {
  kConstant,     // none; `constant`
  kName,         // none; `name`
  kList,         // the elements
  kTuple,        // the elements
  kDict,         // key, value, key, value, ...
  kAttribute,    // object; `name`
  kItem,         // object, index
  kSlice,        // object, start, stop, step; null where left out
  kCall,         // what is called, then the arguments; `keywords`
  kFilter,       // the value (null: the text of a block), then the arguments; `keywords`, `name`
  kTest,         // the value, then the arguments; `keywords`, `name`
  kNot,          // one
  kNegative,     // one
  kPositive,     // one
  kBinary,       // left, right; one of `operators`
  kCompare,      // one more than `operators`
  kAnd,          // left, right
  kOr,           // left, right
  kConcat,       // two or more, with ~ between them
  kConditional,  // value, condition, otherwise (null: left out)
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind;
  int line;
  int depth = 1;  // 1: no operands; see TemplateLimits::max_expression_depth
  std::string name = {};
  Value constant = {};
  std::vector<ExprPtr> operands = {};
  std::vector<Operator> operators = {};
  std::vector<std::pair<std::string, ExprPtr>> keywords = {};
};

// What is assigned to: a name, an attribute of a namespace, or as many targets as there are values.
struct Target {
  std::string name, attribute;
  std::vector<Target> parts;
  bool is_tuple = false;
};

struct Parameter {
  std::string name;
  ExprPtr default_value;  // null: none
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Branch {
  ExprPtr condition;
  Block body;
};

enum class StatementKind {
  kText,         // `text`
  kOutput,       // {{ expr }}
  kIf,           // `branches`, `otherwise`
  kFor,          // `target` in `expr` if `condition`: `body`, or `otherwise` if there was nothing
  kSet,          // `target` = `expr`
  kSetBlock,     // `target` = `body`, through the filter `expr` if that is not null
  kMacro,        // `name`, `parameters`, `body`
  kCallBlock,    // `expr`, a call; its caller() has `parameters` and `body`
  kFilterBlock,  // `body` through the filter `expr`
  kWith,         // `parameters` are set for `body`
  kGeneration,   // `body`: what the assistant writes
  kBreak,
  kContinue,
};

struct Statement {
  StatementKind kind;
  int line;
  std::string text = {};
  std::string name = {};
  ExprPtr expr = nullptr;
  ExprPtr condition = nullptr;
  Target target = {};
  std::vector<Parameter> parameters = {};
  std::vector<Branch> branches = {};
  Block body = {};
  Block otherwise = {};
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;  // kMacro, kCallBlock
};

}  // namespace winnow::jinja
