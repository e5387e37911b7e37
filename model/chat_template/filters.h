// The filters of chat templates: value|name(arguments). Those of Jinja, with tojson as Hugging Face's transformers has
// it and from_json, which some templates expect. Pure functions.
#pragma once

#include <string_view>

#include "base/status.h"
#include "model/chat_template/arguments.h"

namespace winnow::jinja {

bool IsFilter(std::string_view name);
// `name` is one of them. InvalidArgument for what the filter does not take.
Result<Value> ApplyFilter(std::string_view name, const Value& value, const Arguments& arguments);

// For those that are made of several files. Null: not one of that file's.
using Filter = Result<Value> (*)(const Value& value, const Arguments& arguments);
Filter FindTextFilter(std::string_view name);
Filter FindListFilter(std::string_view name);
Filter FindSelectFilter(std::string_view name);

}  // namespace winnow::jinja
