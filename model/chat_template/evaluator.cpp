#include "model/chat_template/evaluator.h"

#include <algorithm>

#include "model/chat_template/value_text.h"

namespace winnow::jinja {

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [key, value] : scope->names) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::Set(const std::string& name, Value value) {
  for (auto& [key, held] : names) {
    if (key != name) continue;
    held = std::move(value);
    return;
  }
  names.emplace_back(name, std::move(value));
}

Status Evaluator::Depth::Check() const {
  if (evaluator_.depth_ <= evaluator_.limits_.max_call_depth) return OkStatus();
  return InvalidArgument("calls and blocks deeper than " + std::to_string(evaluator_.limits_.max_call_depth));
}

Status Evaluator::Spend(int64_t steps) {
  steps_ += steps;
  if (steps_ <= limits_.max_steps) return OkStatus();
  return InvalidArgument("more than " + std::to_string(limits_.max_steps) + " steps");
}

Status Evaluator::SpendOn(const Value& made) {
  constexpr int64_t kBytesPerItem = 64;
  if (const Text* text = made.text()) {
    if (text->text.is_cut()) return InvalidArgument("text of more than " + std::to_string(kMaxTextBytes) + " bytes");
    work_bytes_ += int64_t(text->text.size());
  } else if (made.list()) {
    work_bytes_ += kBytesPerItem * int64_t(made.list()->items.size());
  } else if (made.dict()) {
    work_bytes_ += 2 * kBytesPerItem * int64_t(made.dict()->items.size());
  }
  if (work_bytes_ <= limits_.max_work_bytes) return OkStatus();
  return InvalidArgument("more than " + std::to_string(limits_.max_work_bytes) + " bytes of intermediate values");
}

Result<MarkedText> Evaluator::Render(const Block& block, std::vector<std::pair<std::string, Value>> names) {
  // Names that are given hide functions; both may be assigned to.
  const auto functions = std::make_shared<Scope>(Scope{nullptr,
                                                       {{"range", Value(Function::kRange)},
                                                        {"namespace", Value(Function::kNamespace)},
                                                        {"dict", Value(Function::kDict)},
                                                        {"raise_exception", Value(Function::kRaiseException)},
                                                        {"strftime_now", Value(Function::kStrftimeNow)}}});
  const auto root = std::make_shared<Scope>(Scope{functions, std::move(names)});
  MarkedText out;
  Status status = Execute(block, root, &out).status();
  if (status.ok() && out.is_cut()) {
    status = InvalidArgument("output of more than " + std::to_string(kMaxTextBytes) + " bytes");
  }
  if (!status.ok()) return Status(status.code(), "line " + std::to_string(line_) + ": " + status.message());
  return out;
}

Result<Evaluator::Flow> Evaluator::Execute(const Block& block, const ScopePtr& scope, MarkedText* out) {
  for (const auto& statement : block) {
    WINNOW_ASSIGN_OR_RETURN(const Flow flow, Execute(*statement, scope, out));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::Execute(const Statement& statement, const ScopePtr& scope, MarkedText* out) {
  const Depth depth(*this);
  WINNOW_RETURN_IF_ERROR(depth.Check());
  line_ = statement.line;
  WINNOW_RETURN_IF_ERROR(Spend(1));
  switch (statement.kind) {
    case StatementKind::kText:
      out->Append(statement.text);
      WINNOW_RETURN_IF_ERROR(Spend(int64_t(statement.text.size()) / 64));
      return Flow::kNext;
    case StatementKind::kOutput: {
      WINNOW_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expr, scope));
      WINNOW_RETURN_IF_ERROR(Print(value, out));
      return Flow::kNext;
    }
    case StatementKind::kIf:
      return ExecuteIf(statement, scope, out);
    case StatementKind::kFor:
      return ExecuteFor(statement, scope, out);
    case StatementKind::kSet: {
      WINNOW_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expr, scope));
      WINNOW_RETURN_IF_ERROR(Assign(statement.target, value, scope.get()));
      return Flow::kNext;
    }
    case StatementKind::kSetBlock: {
      WINNOW_ASSIGN_OR_RETURN(MarkedText text, TextOfBlock(statement.body, scope));
      Value value(std::move(text));
      if (statement.expr) {
        WINNOW_ASSIGN_OR_RETURN(value, EvaluateFilter(*statement.expr, value, scope));
      }
      WINNOW_RETURN_IF_ERROR(Assign(statement.target, value, scope.get()));
      return Flow::kNext;
    }
    case StatementKind::kMacro: {
      WINNOW_ASSIGN_OR_RETURN(const Macro macro, MakeMacro(statement, scope));
      scope->Set(statement.name, Value(macro));
      return Flow::kNext;
    }
    case StatementKind::kCallBlock:
      WINNOW_RETURN_IF_ERROR(ExecuteCallBlock(statement, scope, out));
      return Flow::kNext;
    case StatementKind::kFilterBlock: {
      WINNOW_ASSIGN_OR_RETURN(MarkedText text, TextOfBlock(statement.body, scope));
      WINNOW_ASSIGN_OR_RETURN(const Value value, EvaluateFilter(*statement.expr, Value(std::move(text)), scope));
      WINNOW_RETURN_IF_ERROR(Print(value, out));
      return Flow::kNext;
    }
    case StatementKind::kWith:
      return ExecuteWith(statement, scope, out);
    case StatementKind::kGeneration:
      return Execute(statement.body, NewScope(scope), out);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return InternalError("unknown statement");
}

Status Evaluator::Print(const Value& value, MarkedText* out) {
  WINNOW_ASSIGN_OR_RETURN(const MarkedText text, ToText(value));
  if (!value.text()) WINNOW_RETURN_IF_ERROR(SpendOn(Value(text)));
  out->Append(text);
  return OkStatus();
}

Result<MarkedText> Evaluator::TextOfBlock(const Block& block, const ScopePtr& parent) {
  MarkedText text;
  WINNOW_RETURN_IF_ERROR(Execute(block, NewScope(parent), &text).status());
  WINNOW_RETURN_IF_ERROR(SpendOn(Value(text)));
  return text;
}

Result<Evaluator::Flow> Evaluator::ExecuteIf(const Statement& statement, const ScopePtr& scope, MarkedText* out) {
  for (const Branch& branch : statement.branches) {
    WINNOW_ASSIGN_OR_RETURN(const Value condition, Evaluate(*branch.condition, scope));
    if (Truth(condition)) return Execute(branch.body, scope, out);
  }
  return Execute(statement.otherwise, scope, out);
}

Result<Evaluator::Flow> Evaluator::ExecuteFor(const Statement& statement, const ScopePtr& scope, MarkedText* out) {
  WINNOW_ASSIGN_OR_RETURN(const Value iterable, Evaluate(*statement.expr, scope));
  WINNOW_ASSIGN_OR_RETURN(std::vector<Value> items, Items(iterable));
  if (statement.condition) {
    std::vector<Value> wanted;
    for (const Value& item : items) {
      const ScopePtr inner = NewScope(scope);
      WINNOW_RETURN_IF_ERROR(Assign(statement.target, item, inner.get()));
      WINNOW_ASSIGN_OR_RETURN(const Value condition, Evaluate(*statement.condition, inner));
      if (Truth(condition)) wanted.push_back(item);
    }
    items = std::move(wanted);
  }
  if (items.empty()) return Execute(statement.otherwise, NewScope(scope), out);
  WINNOW_ASSIGN_OR_RETURN(const Value list, MakeList(std::move(items)));
  const ListPtr pointer = *list.list_pointer();
  for (size_t i = 0; i < pointer->items.size(); ++i) {
    line_ = statement.line;
    WINNOW_RETURN_IF_ERROR(Spend(1));
    const ScopePtr inner = NewScope(scope);
    inner->Set("loop", Value(std::make_shared<const Loop>(Loop{pointer, int64_t(i)})));
    WINNOW_RETURN_IF_ERROR(Assign(statement.target, pointer->items[i], inner.get()));
    WINNOW_ASSIGN_OR_RETURN(const Flow flow, Execute(statement.body, inner, out));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::ExecuteWith(const Statement& statement, const ScopePtr& scope, MarkedText* out) {
  const ScopePtr inner = NewScope(scope);
  for (const Parameter& parameter : statement.parameters) {
    WINNOW_ASSIGN_OR_RETURN(Value value, Evaluate(*parameter.default_value, scope));
    inner->Set(parameter.name, std::move(value));
  }
  return Execute(statement.body, inner, out);
}

Status Evaluator::ExecuteCallBlock(const Statement& statement, const ScopePtr& scope, MarkedText* out) {
  const Expr& call = *statement.expr;
  WINNOW_ASSIGN_OR_RETURN(const Value callee, Evaluate(*call.operands[0], scope));
  WINNOW_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(call, scope));
  if (!callee.macro()) return InvalidArgument("call: expected a macro, found " + TypeName(callee));
  WINNOW_ASSIGN_OR_RETURN(const Macro caller, MakeMacro(statement, scope));
  WINNOW_ASSIGN_OR_RETURN(const Value value, CallMacro(*callee.macro(), arguments, &caller));
  return Print(value, out);
}

Status Evaluator::Assign(const Target& target, const Value& value, Scope* scope) {
  if (target.is_tuple) {
    WINNOW_ASSIGN_OR_RETURN(const std::vector<Value> values, Items(value));
    if (values.size() != target.parts.size()) {
      return InvalidArgument("expected " + std::to_string(target.parts.size()) + " values to unpack, found " +
                             std::to_string(values.size()));
    }
    for (size_t i = 0; i < values.size(); ++i) WINNOW_RETURN_IF_ERROR(Assign(target.parts[i], values[i], scope));
    return OkStatus();
  }
  if (target.attribute.empty()) {
    scope->Set(target.name, value);
    return OkStatus();
  }
  const Value* held = scope->Find(target.name);
  Namespace* space = held ? held->name_space() : nullptr;
  if (!space) return InvalidArgument("'" + target.name + "." + target.attribute + "': only a namespace can be changed");
  auto& attributes = space->attributes;
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const auto& attribute) { return attribute.first == target.attribute; });
  if (found == attributes.end()) {
    attributes.emplace_back(target.attribute, value);
  } else {
    found->second = value;
  }
  return OkStatus();
}

}  // namespace winnow::jinja
