// The methods of Python's str, dict, list and tuple that chat templates call. Those that change a list or a mapping
// are undefined, as in Jinja's sandbox. Pure functions.
#pragma once

#include <string_view>

#include "base/status.h"
#include "model/chat_template/arguments.h"

namespace winnow::jinja {

// Whether any kind of value has a method of this name that winnow knows.
bool IsMethod(std::string_view name);
bool HasMethod(const Value& object, std::string_view name);
// Whether it has a method of this name that would change it.
bool IsForbiddenMethod(const Value& object, std::string_view name);
// InvalidArgument for what the method does not take.
Result<Value> CallMethod(const Method& method, const Arguments& arguments);

}  // namespace winnow::jinja
