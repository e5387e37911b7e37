// The part of the evaluator that calls macros, functions and methods.
#include <algorithm>

#include "model/chat_template/evaluator.h"
#include "model/chat_template/methods.h"
#include "model/chat_template/value_text.h"

namespace winnow::jinja {
namespace {

Result<Value> MakeRange(const Arguments& arguments) {
  std::vector<int64_t> numbers;
  for (const Value& value : arguments.positional) {
    WINNOW_ASSIGN_OR_RETURN(const int64_t number, IntegerOf(value, "range"));
    numbers.push_back(number);
  }
  if (numbers.empty() || numbers.size() > 3 || !arguments.keywords.empty()) {
    return InvalidArgument("range: expected 1 to 3 numbers");
  }
  const int64_t start = numbers.size() > 1 ? numbers[0] : 0, stop = numbers[numbers.size() > 1];
  const int64_t step = numbers.size() > 2 ? numbers[2] : 1;
  if (step == 0) return InvalidArgument("range: expected a step that is not 0");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (int64_t(items.size()) == kMaxRange) {
      return InvalidArgument("range: expected at most " + std::to_string(kMaxRange) + " numbers");
    }
    items.push_back(Value(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return MakeList(std::move(items), ListKind::kRange);
}

// dict(mapping, name=value, ...), as entries. The mapping may be a namespace's.
Result<Value> MakeDictOf(const Arguments& arguments, std::string_view function) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) return InvalidArgument(std::string(function) + ": expected one mapping at most");
  if (!arguments.positional.empty()) {
    const Dict* dict = arguments.positional[0].dict();
    if (!dict)
      return InvalidArgument(std::string(function) + ": expected a dict, found " + TypeName(arguments.positional[0]));
    entries = dict->items;
  }
  for (const auto& [name, value] : arguments.keywords) entries.emplace_back(Value::OfText(name), value);
  return MakeDict(std::move(entries));
}

}  // namespace

Result<std::string> FormatTime(std::string_view format, const std::tm& now) {
  std::string text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      text += format[i];
      continue;
    }
    std::string conversion = "%";
    if (i + 1 < format.size() && format[i + 1] == '-') conversion += format[++i];  // without padding
    const char letter = ++i < format.size() ? format[i] : '\0';
    if (letter == '\0' || std::string_view("aAbBcdeDFHIjmMpSTRuUVwWxXyYG%").find(letter) == std::string_view::npos) {
      return InvalidArgument("strftime_now: the format %" + std::string(letter != '\0', letter) + " is not supported");
    }
    conversion += letter;
    char buffer[128];
    text.append(buffer, std::strftime(buffer, sizeof(buffer), conversion.c_str(), &now));
  }
  return text;
}

Result<Macro> Evaluator::MakeMacro(const Statement& statement, const ScopePtr& scope) {
  WINNOW_RETURN_IF_ERROR(SpendOnKept());
  macro_scopes_.emplace(scope.get(), scope);
  return Macro{&statement, scope.get()};
}

Result<Value> Evaluator::Call(const Value& callee, const Arguments& arguments) {
  if (callee.macro()) return CallMacro(*callee.macro(), arguments, nullptr);
  if (callee.function()) return CallFunction(*callee.function(), arguments);
  if (const Method* method = callee.method()) {
    WINNOW_RETURN_IF_ERROR(Spend(method->object.size() / 16));
    return CallMethod(*method, arguments);
  }
  if (callee.is_undefined()) return InvalidArgument(callee.undefined()->what);
  return InvalidArgument("'" + TypeName(callee) + "' object is not callable");
}

Result<Value> Evaluator::CallFunction(Function function, const Arguments& arguments) {
  switch (function) {
    case Function::kRange:
      return MakeRange(arguments);
    case Function::kNamespace:
      return MakeNamespace(arguments);
    case Function::kDict:
      return MakeDictOf(arguments, "dict");
    case Function::kRaiseException: {
      WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("raise_exception", {"message"}, 1));
      WINNOW_ASSIGN_OR_RETURN(const MarkedText message, ToText(*bound[0]));
      return InvalidArgument("the template refuses: " + std::string(message.view()));
    }
    case Function::kStrftimeNow: {
      WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("strftime_now", {"format"}, 1));
      WINNOW_ASSIGN_OR_RETURN(const MarkedText* format, TextOf(*bound[0], "strftime_now"));
      WINNOW_ASSIGN_OR_RETURN(const std::string text, FormatTime(format->view(), now_));
      return Value::OfText(text);
    }
  }
  return InternalError("unknown function");
}

Result<Value> Evaluator::MakeNamespace(const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const Value entries, MakeDictOf(arguments, "namespace"));
  WINNOW_RETURN_IF_ERROR(SpendOnKept());
  WINNOW_RETURN_IF_ERROR(SpendOn(entries));
  auto space = std::make_unique<Namespace>();
  for (const auto& [key, value] : entries.dict()->items) {
    if (!key.text()) return InvalidArgument("namespace: expected names that are text");
    space->attributes.emplace_back(std::string(key.view()), value);
  }
  namespaces_.push_back(std::move(space));
  return Value(namespaces_.back().get());
}

Result<Value> Evaluator::CallMacro(const Macro& macro, const Arguments& arguments, const Macro* caller) {
  const Statement& statement = *macro.statement;
  const auto refuse = [&](const std::string& message) {
    return InvalidArgument("macro '" + statement.name + "': " + message);
  };
  // The scope is kept by macro_scopes_; shared_ptr so that inner scopes may have it as their parent.
  const ScopePtr scope = NewScope(macro_scopes_.at(macro.defined_in));
  const auto& parameters = statement.parameters;
  std::vector<Value> extra;
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < parameters.size()) {
      scope->Set(parameters[i].name, arguments.positional[i]);
    } else if (statement.uses_varargs) {
      extra.push_back(arguments.positional[i]);
    } else {
      return refuse("expected at most " + std::to_string(parameters.size()) + " arguments");
    }
  }
  std::vector<std::pair<Value, Value>> extra_named;
  Value caller_value(Undefined{"no caller defined"});
  if (caller) caller_value = Value(*caller);
  for (const auto& [name, value] : arguments.keywords) {
    const auto parameter = std::find_if(parameters.begin(), parameters.end(),
                                        [&wanted = name](const Parameter& p) { return p.name == wanted; });
    if (parameter != parameters.end()) {
      if (size_t(parameter - parameters.begin()) < arguments.positional.size()) {
        return refuse("two values for the argument '" + name + "'");
      }
      scope->Set(name, value);
    } else if (name == "caller" && statement.uses_caller && !caller) {
      caller_value = value;
    } else if (statement.uses_kwargs) {
      extra_named.emplace_back(Value::OfText(name), value);
    } else {
      return refuse("no argument has the name '" + name + "'");
    }
  }
  if (caller && !statement.uses_caller) return refuse("it has no use for the block of a call");
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& names = scope->names;
    if (std::any_of(names.begin(), names.end(), [&](const auto& n) { return n.first == parameters[i].name; })) continue;
    Value value(Undefined{"parameter '" + parameters[i].name + "' was not provided"});
    if (parameters[i].default_value) {
      WINNOW_ASSIGN_OR_RETURN(value, Evaluate(*parameters[i].default_value, scope));
    }
    scope->Set(parameters[i].name, std::move(value));
  }
  if (statement.uses_caller && statement.kind == StatementKind::kMacro) scope->Set("caller", std::move(caller_value));
  if (statement.uses_varargs) {
    WINNOW_ASSIGN_OR_RETURN(Value value, MakeList(std::move(extra), ListKind::kTuple));
    scope->Set("varargs", std::move(value));
  }
  if (statement.uses_kwargs) {
    WINNOW_ASSIGN_OR_RETURN(Value value, MakeDict(std::move(extra_named)));
    scope->Set("kwargs", std::move(value));
  }
  MarkedText text;
  WINNOW_RETURN_IF_ERROR(Execute(statement.body, scope, &text).status());
  return Value(std::move(text));
}

}  // namespace winnow::jinja
