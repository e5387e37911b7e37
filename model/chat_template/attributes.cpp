#include "model/chat_template/attributes.h"

#include <algorithm>
#include <charconv>

#include "model/chat_template/methods.h"
#include "model/chat_template/python_text.h"

namespace winnow::jinja {
namespace {

Value Missing(const Value& object, std::string_view name) {
  return Value(
      Undefined{"'" + TypeName(object) + " object' has no attribute '" + std::string(name.substr(0, 80)) + "'"});
}

Value LoopAttribute(const Value& object, std::string_view name) {
  const Loop& loop = *object.loop();
  const auto& items = loop.items->items;
  const auto length = int64_t(items.size());
  if (name == "index") return Value(loop.index0 + 1);
  if (name == "index0") return Value(loop.index0);
  if (name == "revindex") return Value(length - loop.index0);
  if (name == "revindex0") return Value(length - loop.index0 - 1);
  if (name == "first") return Value(loop.index0 == 0);
  if (name == "last") return Value(loop.index0 + 1 == length);
  if (name == "length") return Value(length);
  // Loops within loops count only where they are recursive.
  if (name == "depth") return Value(int64_t(1));
  if (name == "depth0") return Value(int64_t(0));
  if (name == "previtem")
    return loop.index0 > 0 ? items[size_t(loop.index0 - 1)] : Value(Undefined{"there is no previous item"});
  if (name == "nextitem")
    return loop.index0 + 1 < length ? items[size_t(loop.index0 + 1)] : Value(Undefined{"there is no next item"});
  return GetMethod(object, name);
}

// The item at an index that may count from the end; null: none.
const Value* At(const std::vector<Value>& items, int64_t index) {
  const auto length = int64_t(items.size());
  if (index < 0) index += length;
  return index >= 0 && index < length ? &items[size_t(index)] : nullptr;
}

Result<Value> TextItem(const Value& object, int64_t index) {
  const MarkedText& text = object.text()->text;
  const auto length = int64_t(CountCharacters(text.view()));
  if (index < 0) index += length;
  if (index < 0 || index >= length) return Missing(object, std::to_string(index));
  size_t begin = 0;
  const auto bytes_at = [&](size_t at) {
    size_t end = at + 1;
    while (end < text.size() && (uint8_t(text.view()[end]) & 0xc0) == 0x80) ++end;
    return end - at;
  };
  for (int64_t i = 0; i < index; ++i) begin += bytes_at(begin);
  return Value(text.Part(begin, begin + bytes_at(begin)));
}

// The indices that a slice takes of `length` items, as Python's slice.indices.
Result<std::vector<int64_t>> Indices(const SliceBounds& bounds, int64_t length) {
  const int64_t step = bounds.step.value_or(1);
  if (step == 0) return InvalidArgument("slice step cannot be zero");
  const int64_t lower = step < 0 ? -1 : 0, upper = step < 0 ? length - 1 : length;
  const auto clamp = [&](const std::optional<int64_t>& bound, int64_t otherwise) {
    if (!bound) return otherwise;
    // Far outside is as good as just outside, and cannot overflow.
    const int64_t value = std::clamp<int64_t>(*bound, -length - 1, length + 1);
    return std::clamp(value < 0 ? value + length : value, lower, upper);
  };
  const int64_t start = clamp(bounds.start, step < 0 ? upper : lower);
  const int64_t stop = clamp(bounds.stop, step < 0 ? lower : upper);
  std::vector<int64_t> indices;
  const int64_t stride = std::clamp<int64_t>(step, -length - 1, length + 1);
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += stride) indices.push_back(i);
  return indices;
}

}  // namespace

Value GetMethod(const Value& object, std::string_view name) {
  if (IsForbiddenMethod(object, name)) {
    return Value(
        Undefined{"'" + std::string(name) + "' would change a " + TypeName(object) + ", which a template may not"});
  }
  if (!HasMethod(object, name)) return Missing(object, name);
  return Value(std::make_shared<const Method>(Method{object, std::string(name)}));
}

Result<Value> GetAttribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) return InvalidArgument(object.undefined()->what);
  if (object.loop()) return LoopAttribute(object, name);
  if (const Namespace* space = object.name_space()) {
    for (const auto& [key, value] : space->attributes) {
      if (key == name) return value;
    }
    return Missing(object, name);
  }
  if (HasMethod(object, name) || IsForbiddenMethod(object, name)) return GetMethod(object, name);
  if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->Find(name)) return *value;
  }
  return Missing(object, name);
}

Result<Value> GetItem(const Value& object, const Value& index) {
  if (object.is_undefined()) return InvalidArgument(object.undefined()->what);
  if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->Find(index)) return *value;
  } else if (const auto at = ToInteger(index)) {
    if (object.text()) return TextItem(object, *at);
    const List* list = object.list();
    if (list && list->kind != ListKind::kView && list->kind != ListKind::kIterator) {
      if (const Value* value = At(list->items, *at)) return *value;
    }
  }
  if (index.text()) {
    // Keys have been looked for.
    return object.dict() ? GetMethod(object, index.view()) : GetAttribute(object, index.view());
  }
  return Missing(object, index.text()       ? index.view()
                         : ToInteger(index) ? std::to_string(*ToInteger(index))
                                            : TypeName(index));
}

Result<Value> GetPath(const Value& object, const Value& path) {
  if (ToInteger(path)) return GetItem(object, path);
  if (!path.text()) return InvalidArgument("expected the name of an attribute, found " + TypeName(path));
  const MarkedText dot(".");
  WINNOW_ASSIGN_OR_RETURN(const auto parts, Split(path.text()->text, &dot, -1));
  Value value = object;
  for (const MarkedText& part : parts) {
    const std::string_view name = part.view();
    int64_t index = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = error == std::errc() && end == name.data() + name.size() && !name.starts_with('-');
    WINNOW_ASSIGN_OR_RETURN(value, GetItem(value, is_index ? Value(index) : Value(part)));
  }
  return value;
}

Result<Value> GetSlice(const Value& object, const SliceBounds& bounds) {
  if (object.is_undefined()) return InvalidArgument(object.undefined()->what);
  if (const Text* text = object.text()) {
    const auto length = int64_t(CountCharacters(text->text.view()));
    const std::vector<TextSpan> characters = Characters(text->text.view());
    WINNOW_ASSIGN_OR_RETURN(const auto indices, Indices(bounds, length));
    if (indices.empty()) return Value(MarkedText());
    if (bounds.step.value_or(1) == 1) {
      return Value(text->text.Part(characters[size_t(indices.front())].begin, characters[size_t(indices.back())].end));
    }
    MarkedText sliced;
    for (const int64_t i : indices) {
      sliced.AppendPart(text->text, characters[size_t(i)].begin, characters[size_t(i)].end);
    }
    return Value(std::move(sliced));
  }
  const List* list = object.list();
  if (!list || list->kind == ListKind::kView || list->kind == ListKind::kIterator) return Missing(object, "slice");
  WINNOW_ASSIGN_OR_RETURN(const auto indices, Indices(bounds, int64_t(list->items.size())));
  std::vector<Value> sliced;
  for (const int64_t i : indices) sliced.push_back(list->items[size_t(i)]);
  return MakeList(std::move(sliced), list->kind);
}

}  // namespace winnow::jinja
