// object.name and object[index], as Jinja looks them up: what is not there is undefined. Pure functions.
#pragma once

#include <string_view>

#include "base/status.h"
#include "model/chat_template/value.h"

namespace winnow::jinja {

// A method first, then a key of a mapping. InvalidArgument for attributes of what is undefined.
Result<Value> GetAttribute(const Value& object, std::string_view name);
// A key or an index first, then a method.
Result<Value> GetItem(const Value& object, const Value& index);
// "function.name" or "0.name" or a number, one after the other.
Result<Value> GetPath(const Value& object, const Value& path);
// The method only, or undefined.
Value GetMethod(const Value& object, std::string_view name);

struct SliceBounds {
  std::optional<int64_t> start, stop, step;
};
// Of texts, lists and tuples; with negative steps, too.
Result<Value> GetSlice(const Value& object, const SliceBounds& bounds);

}  // namespace winnow::jinja
