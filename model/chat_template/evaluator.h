// Renders a parsed chat template: scopes, statements, expressions, macros, and the limits on all of them. One for each
// rendering; one thread.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/chat_template/arguments.h"
#include "model/chat_template/limits.h"
#include "model/chat_template/syntax.h"

namespace winnow::jinja {

// Names of one block; what is not here is looked for in the parent.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> names = {};

  const Value* Find(std::string_view name) const;
  void Set(const std::string& name, Value value);
};

class Evaluator {
 public:
  // now: local time, for strftime_now.
  Evaluator(const TemplateLimits& limits, const std::tm& now) : limits_(limits), now_(now) {}

  // InvalidArgument, with the line: what the template refuses or cannot do with these values, and limits exceeded.
  Result<MarkedText> Render(const Block& block, std::vector<std::pair<std::string, Value>> names);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  using ScopePtr = std::shared_ptr<Scope>;

  // evaluator.cpp: statements. What they print goes to `out`.
  Result<Flow> Execute(const Block& block, const ScopePtr& scope, MarkedText* out);
  Result<Flow> Execute(const Statement& statement, const ScopePtr& scope, MarkedText* out);
  Result<Flow> ExecuteIf(const Statement& statement, const ScopePtr& scope, MarkedText* out);
  Result<Flow> ExecuteFor(const Statement& statement, const ScopePtr& scope, MarkedText* out);
  Status ExecuteCallBlock(const Statement& statement, const ScopePtr& scope, MarkedText* out);
  Result<Flow> ExecuteWith(const Statement& statement, const ScopePtr& scope, MarkedText* out);
  Status Assign(const Target& target, const Value& value, Scope* scope);
  Status Print(const Value& value, MarkedText* out);
  // A block that stands for its text.
  Result<MarkedText> TextOfBlock(const Block& block, const ScopePtr& parent);
  ScopePtr NewScope(const ScopePtr& parent) { return std::make_shared<Scope>(Scope{parent}); }

  // expressions.cpp
  Result<Value> Evaluate(const Expr& expr, const ScopePtr& scope);
  Result<Value> EvaluateInside(const Expr& expr, const ScopePtr& scope);
  Result<Value> EvaluateName(const Expr& expr, const Scope& scope);
  Result<Value> EvaluateCollection(const Expr& expr, const ScopePtr& scope);
  Result<Value> EvaluateSlice(const Expr& expr, const ScopePtr& scope);
  Result<Value> EvaluateCompare(const Expr& expr, const ScopePtr& scope);
  Result<Value> EvaluateConcat(const Expr& expr, const ScopePtr& scope);
  // `value` goes in where the expression has none: the text of a block.
  Result<Value> EvaluateFilter(const Expr& expr, const Value& value, const ScopePtr& scope);
  Result<Value> EvaluateTest(const Expr& expr, const ScopePtr& scope);
  Result<Arguments> EvaluateArguments(const Expr& call, const ScopePtr& scope);

  // calls.cpp
  Result<Value> Call(const Value& callee, const Arguments& arguments);
  // caller: of a call block; null: none.
  Result<Value> CallMacro(const Macro& macro, const Arguments& arguments, const Macro* caller);
  Result<Value> CallFunction(Function function, const Arguments& arguments);
  Result<Value> MakeNamespace(const Arguments& arguments);
  Result<Macro> MakeMacro(const Statement& statement, const ScopePtr& scope);

  // Counts work done; InvalidArgument when it is too much.
  Status Spend(int64_t steps);
  // What stays until the rendering is over, such as a namespace, counts more.
  Status SpendOnKept() { return Spend(16); }
  Status SpendOn(const Value& made);

  // Counts how deep evaluation is, while it lives.
  class Depth {
   public:
    explicit Depth(Evaluator& evaluator) : evaluator_(evaluator) { ++evaluator_.depth_; }
    ~Depth() { --evaluator_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Status Check() const;

   private:
    Evaluator& evaluator_;
  };

  const TemplateLimits limits_;
  const std::tm now_;
  int depth_ = 0;
  int line_ = 1;  // of what is being evaluated
  int64_t steps_ = 0, work_bytes_ = 0;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  // Macros may outlive the block in which they are defined.
  std::unordered_map<const Scope*, ScopePtr> macro_scopes_;
};

// now.strftime(format), of the formats that have the same meaning everywhere.
Result<std::string> FormatTime(std::string_view format, const std::tm& now);

}  // namespace winnow::jinja
