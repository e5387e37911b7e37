#include "model/chat_template/value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/chat_template/python_text.h"

namespace winnow::jinja {
namespace {

// Text of this many bytes counts as much as a number.
constexpr int64_t kBytesPerSize = 64;

Status CheckSize(int64_t size, int depth) {
  if (size > kMaxValueSize) {
    return InvalidArgument("expected at most " + std::to_string(kMaxValueSize) + " values in a list or mapping");
  }
  if (depth > kMaxValueDepth) {
    return InvalidArgument("expected at most " + std::to_string(kMaxValueDepth) +
                           " lists and mappings inside each other");
  }
  return OkStatus();
}

bool IsHashable(const Value& value) {
  if (const List* list = value.list()) {
    return list->kind == ListKind::kTuple && std::all_of(list->items.begin(), list->items.end(), IsHashable);
  }
  return value.dict() == nullptr;
}

bool EqualItems(const List& a, const List& b) {
  return a.items.size() == b.items.size() && std::equal(a.items.begin(), a.items.end(), b.items.begin(), Equal);
}

bool EqualEntries(const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  return std::all_of(a.items.begin(), a.items.end(), [&](const auto& entry) {
    const Value* other = b.Find(entry.first);
    return other != nullptr && Equal(entry.second, *other);
  });
}

Result<Value> FromJsonArray(const nlohmann::ordered_json& json, bool from_conversation) {
  std::vector<Value> items;
  for (const auto& item : json) {
    WINNOW_ASSIGN_OR_RETURN(Value value, FromJson(item, from_conversation));
    items.push_back(std::move(value));
  }
  return MakeList(std::move(items));
}

Result<Value> FromJsonObject(const nlohmann::ordered_json& json, bool from_conversation) {
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, item] : json.items()) {
    const bool is_role = key == "role" && item.is_string();
    WINNOW_ASSIGN_OR_RETURN(Value value, FromJson(item, from_conversation && !is_role));
    items.emplace_back(MarkedText(key, from_conversation), std::move(value));
  }
  return MakeDict(std::move(items));
}

}  // namespace

const Value* Dict::Find(const Value& key) const {
  for (const auto& [name, value] : items) {
    if (Equal(name, key)) return &value;
  }
  return nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (name.text() != nullptr && name.view() == key) return &value;
  }
  return nullptr;
}

int64_t Value::size() const {
  if (list()) return list()->size;
  if (dict()) return dict()->size;
  return 1 + int64_t(view().size()) / kBytesPerSize;
}

int Value::depth() const {
  if (list()) return list()->depth;
  if (dict()) return dict()->depth;
  // A method that has not been called holds its object.
  return method() ? 1 + method()->object.depth() : 0;
}

Result<Value> MakeList(std::vector<Value> items, ListKind kind) {
  int64_t size = 1;
  int depth = 1;
  for (const Value& item : items) {
    size += item.size();
    depth = std::max(depth, 1 + item.depth());
  }
  WINNOW_RETURN_IF_ERROR(CheckSize(size, depth));
  return Value(std::make_shared<const List>(List{kind, std::move(items), size, depth}));
}

Result<Value> MakeDict(std::vector<std::pair<Value, Value>> entries) {
  Dict dict{{}, 1, 1};
  for (auto& [key, value] : entries) {
    if (!IsHashable(key)) return InvalidArgument("unhashable type: '" + TypeName(key) + "'");
    dict.size += key.size() + value.size();
    dict.depth = std::max({dict.depth, 1 + key.depth(), 1 + value.depth()});
  }
  WINNOW_RETURN_IF_ERROR(CheckSize(dict.size, dict.depth));
  if (entries.size() > kMaxKeys) {
    return InvalidArgument("expected at most " + std::to_string(kMaxKeys) + " keys in a mapping");
  }
  // Sorted by text, so that thousands of keys are compared with their neighbours only.
  std::vector<size_t> order(entries.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto all_text =
      std::all_of(entries.begin(), entries.end(), [](const auto& entry) { return entry.first.text() != nullptr; });
  std::vector<bool> replaced(entries.size(), false);
  if (all_text) {
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return entries[a].first.view() < entries[b].first.view(); });
    for (size_t i = order.size(); i-- > 1;) {
      if (entries[order[i]].first.view() != entries[order[i - 1]].first.view()) continue;
      entries[order[i - 1]].second = entries[order[i]].second;
      replaced[order[i]] = true;
    }
  } else {
    constexpr size_t kMaxMixedKeys = 1000;
    if (entries.size() > kMaxMixedKeys) return InvalidArgument("expected at most 1000 keys that are not all text");
    for (size_t i = entries.size(); i-- > 1;) {
      for (size_t j = 0; j < i; ++j) {
        if (!Equal(entries[i].first, entries[j].first)) continue;
        entries[j].second = entries[i].second;
        replaced[i] = true;
        break;
      }
    }
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!replaced[i]) dict.items.push_back(std::move(entries[i]));
  }
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

Result<Value> FromJson(const nlohmann::ordered_json& json, bool from_conversation) {
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::null:
      return Value(None{});
    case nlohmann::ordered_json::value_t::boolean:
      return Value(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_unsigned:
      if (json.get<uint64_t>() > uint64_t(INT64_MAX)) return InvalidArgument("expected integers below 2^63");
      return Value(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_float:
      return Value(json.get<double>());
    case nlohmann::ordered_json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (!IsUtf8(text)) return InvalidArgument("expected UTF-8 in every text");
      if (text.size() > kMaxTextBytes) {
        return InvalidArgument("expected texts of at most " + std::to_string(kMaxTextBytes) + " bytes, found " +
                               std::to_string(text.size()));
      }
      return Value(MarkedText(text, from_conversation));
    }
    case nlohmann::ordered_json::value_t::array:
      return FromJsonArray(json, from_conversation);
    case nlohmann::ordered_json::value_t::object:
      return FromJsonObject(json, from_conversation);
    default:
      return InvalidArgument("expected JSON values, found bytes");
  }
}

std::string TypeName(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.integer()) return "int";
  if (value.number()) return "float";
  if (value.text()) return value.text()->is_markup ? "Markup" : "str";
  if (value.dict()) return "dict";
  if (value.name_space()) return "Namespace";
  if (value.loop()) return "LoopContext";
  if (const List* list = value.list()) {
    switch (list->kind) {
      case ListKind::kList:
        return "list";
      case ListKind::kTuple:
        return "tuple";
      case ListKind::kRange:
        return "range";
      case ListKind::kView:
        return "dict view";
      case ListKind::kIterator:
        return "generator";
    }
  }
  return value.macro() ? "Macro" : value.method() ? "method" : "function";
}

bool Truth(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const bool* boolean = value.boolean()) return *boolean;
  if (const int64_t* integer = value.integer()) return *integer != 0;
  if (const double* number = value.number()) return *number != 0;
  if (value.text()) return !value.view().empty();
  if (const List* list = value.list()) return list->kind == ListKind::kIterator || !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->items.empty();
  return true;
}

bool IsNumber(const Value& value) {
  return value.is_bool() || value.integer() || value.number();
}

double ToDouble(const Value& value) {
  if (const double* number = value.number()) return *number;
  return double(ToInteger(value).value_or(0));
}

std::optional<int64_t> ToInteger(const Value& value) {
  if (const bool* boolean = value.boolean()) return *boolean ? 1 : 0;
  if (const int64_t* integer = value.integer()) return *integer;
  return std::nullopt;
}

bool Equal(const Value& a, const Value& b) {
  if (IsNumber(a) && IsNumber(b)) {
    const auto x = ToInteger(a), y = ToInteger(b);
    return x && y ? *x == *y : ToDouble(a) == ToDouble(b);
  }
  if (a.text() && b.text()) return a.view() == b.view();
  if (const List* x = a.list()) {
    const List* y = b.list();
    if (x == y) return true;
    return y != nullptr && x->kind == y->kind && x->kind != ListKind::kIterator && EqualItems(*x, *y);
  }
  if (const Dict* x = a.dict()) {
    const Dict* y = b.dict();
    return x == y || (y != nullptr && EqualEntries(*x, *y));
  }
  if (a.is_none() || a.is_undefined()) return a.is_none() == b.is_none() && a.is_undefined() == b.is_undefined();
  if (a.name_space()) return a.name_space() == b.name_space();
  if (a.loop()) return a.loop() == b.loop();
  if (const Macro* x = a.macro()) {
    const Macro* y = b.macro();
    return y != nullptr && x->statement == y->statement && x->defined_in == y->defined_in;
  }
  if (a.function()) return b.function() != nullptr && *a.function() == *b.function();
  const Method *x = a.method(), *y = b.method();
  return x != nullptr && y != nullptr && x->name == y->name && Equal(x->object, y->object);
}

Result<bool> Less(const Value& a, const Value& b) {
  if (IsNumber(a) && IsNumber(b)) {
    const auto x = ToInteger(a), y = ToInteger(b);
    return x && y ? *x < *y : ToDouble(a) < ToDouble(b);
  }
  if (a.text() && b.text()) return a.view() < b.view();  // bytes of UTF-8 are ordered as code points are
  const List *x = a.list(), *y = b.list();
  if (x && y && x->kind == y->kind && (x->kind == ListKind::kList || x->kind == ListKind::kTuple)) {
    for (size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
      if (!Equal(x->items[i], y->items[i])) return Less(x->items[i], y->items[i]);
    }
    return x->items.size() < y->items.size();
  }
  if (a.is_undefined()) return InvalidArgument(a.undefined()->what);
  if (b.is_undefined()) return InvalidArgument(b.undefined()->what);
  return InvalidArgument("'" + TypeName(a) + "' and '" + TypeName(b) + "' are not ordered");
}

Result<std::vector<Value>> Items(const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (const List* list = value.list()) {
    if (list->kind != ListKind::kIterator) return list->items;
    items.assign(list->items.begin() + ptrdiff_t(list->num_read), list->items.end());
    list->num_read = list->items.size();
    return items;
  }
  if (const Dict* dict = value.dict()) {
    for (const auto& entry : dict->items) items.push_back(entry.first);
    return items;
  }
  if (const Text* text = value.text()) {
    if (int64_t(text->text.size()) > kMaxValueSize) return InvalidArgument("the text is too long to go through");
    for (const TextSpan& span : Characters(text->text.view())) {
      items.push_back(text->text.Part(span.begin, span.end));
    }
    return items;
  }
  return InvalidArgument("'" + TypeName(value) + "' object is not iterable");
}

Result<int64_t> Length(const Value& value) {
  if (value.is_undefined()) return int64_t(0);
  if (const List* list = value.list(); list && list->kind != ListKind::kIterator) return int64_t(list->items.size());
  if (value.dict()) return int64_t(value.dict()->items.size());
  if (value.text()) return int64_t(CountCharacters(value.view()));
  return InvalidArgument("object of type '" + TypeName(value) + "' has no length");
}

}  // namespace winnow::jinja
