// The values of a chat template, as Python has them: what a conversation's JSON becomes, and what expressions make of
// it. Lists and mappings never change once made and never hold themselves. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "model/chat_template/marked_text.h"

namespace winnow::jinja {

class Value;
struct Scope;      // evaluator.h
struct Statement;  // syntax.h

// Absent: prints as nothing, and says what was missing when more is asked of it.
struct Undefined {
  std::string what;  // "'name' is undefined"
};
struct None {};

struct Text {
  MarkedText text;
  bool is_markup = false;  // went through the filter safe or escape: what is added to it becomes HTML
};

enum class ListKind {
  kList,
  kTuple,
  kRange,
  kView,      // dict.items() and such: has a length, but no index
  kIterator,  // of a filter such as select: neither, and can be read once
};

struct List {
  ListKind kind;
  std::vector<Value> items;
  int64_t size;                 // values inside, with those inside them; see kMaxValueSize
  int depth;                    // 1: no list or mapping inside
  mutable size_t num_read = 0;  // kIterator: items taken
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in insertion order, keys differ
  int64_t size;
  int depth;

  // Null when the key is missing.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
};

// What namespace() makes: the only thing that changes. Owned by the evaluator.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct Macro {
  const Statement* statement;  // kMacro or kCallBlock
  Scope* defined_in;           // kept by the evaluator
};

enum class Function { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow };

// `loop` of a for statement.
struct Loop {
  std::shared_ptr<const List> items;
  int64_t index0 = 0;
};

struct Method;  // a value's method that has not been called, such as message.get

using ListPtr = std::shared_ptr<const List>;
using DictPtr = std::shared_ptr<const Dict>;
using TextPtr = std::shared_ptr<const Text>;
using LoopPtr = std::shared_ptr<const Loop>;
using MethodPtr = std::shared_ptr<const Method>;

class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}  // NOLINT: implicit on purpose, as those below
  Value(None none) : data_(none) {}                            // NOLINT
  Value(bool value) : data_(value) {}                          // NOLINT
  Value(int64_t value) : data_(value) {}                       // NOLINT
  Value(double value) : data_(value) {}                        // NOLINT
  Value(MarkedText text) : Value(Text{std::move(text)}) {}     // NOLINT
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}  // NOLINT
  Value(ListPtr list) : data_(std::move(list)) {}                             // NOLINT
  Value(DictPtr dict) : data_(std::move(dict)) {}                             // NOLINT
  Value(Namespace* value) : data_(value) {}                                   // NOLINT
  Value(Macro macro) : data_(macro) {}                                        // NOLINT
  Value(Function function) : data_(function) {}                               // NOLINT
  Value(LoopPtr loop) : data_(std::move(loop)) {}                             // NOLINT
  Value(MethodPtr method) : data_(std::move(method)) {}                       // NOLINT
  // A literal of ours; bool would otherwise take it.
  static Value OfText(std::string_view text) { return Value(MarkedText(text)); }

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_callable() const { return macro() || function() || method(); }

  // Null when it is something else.
  const Undefined* undefined() const { return std::get_if<Undefined>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const double* number() const { return std::get_if<double>(&data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const Text* text() const { return PointedTo<TextPtr>(); }
  const List* list() const { return PointedTo<ListPtr>(); }
  const Dict* dict() const { return PointedTo<DictPtr>(); }
  const Loop* loop() const { return PointedTo<LoopPtr>(); }
  const Method* method() const { return PointedTo<MethodPtr>(); }
  const Macro* macro() const { return std::get_if<Macro>(&data_); }
  const Function* function() const { return std::get_if<Function>(&data_); }
  Namespace* name_space() const {
    const auto* held = std::get_if<Namespace*>(&data_);
    return held ? *held : nullptr;
  }
  const ListPtr* list_pointer() const { return std::get_if<ListPtr>(&data_); }
  // The bytes of a text, else nothing.
  std::string_view view() const { return text() ? text()->text.view() : std::string_view(); }

  // How much room it takes, for limits: 1 and what is inside.
  int64_t size() const;
  int depth() const;

 private:
  template <class P>
  const typename P::element_type* PointedTo() const {
    const P* held = std::get_if<P>(&data_);
    return held ? held->get() : nullptr;
  }

  std::variant<Undefined, None, bool, int64_t, double, TextPtr, ListPtr, DictPtr, Namespace*, Macro, Function, LoopPtr,
               MethodPtr>
      data_;
};

struct Method {
  Value object;
  std::string name;
};

// InvalidArgument for what exceeds kMaxValueSize or kMaxValueDepth.
Result<Value> MakeList(std::vector<Value> items, ListKind kind = ListKind::kList);
// Of equal keys the last one counts, at the place of the first. InvalidArgument for keys that Python cannot hash.
Result<Value> MakeDict(std::vector<std::pair<Value, Value>> items);
// Texts are marked as the conversation's but for the value of "role", which says who speaks and which templates make
// special tokens of.
Result<Value> FromJson(const nlohmann::ordered_json& json, bool from_conversation);

// "int", "str", "list": Python's names, for messages.
std::string TypeName(const Value& value);
bool Truth(const Value& value);
bool Equal(const Value& a, const Value& b);
// InvalidArgument for what Python does not order.
Result<bool> Less(const Value& a, const Value& b);
// bool, int, float as a number.
bool IsNumber(const Value& value);
double ToDouble(const Value& value);
// The integer of an int or a bool; null: neither.
std::optional<int64_t> ToInteger(const Value& value);
// What a for loop goes through: elements, keys, characters, nothing for what is undefined. An iterator is then used up.
Result<std::vector<Value>> Items(const Value& value);
// len(value).
Result<int64_t> Length(const Value& value);

}  // namespace winnow::jinja
