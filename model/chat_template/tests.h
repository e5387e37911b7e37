// The tests of chat templates: value is name(arguments). Those of Jinja. Pure functions.
#pragma once

#include <string_view>

#include "base/status.h"
#include "model/chat_template/arguments.h"

namespace winnow::jinja {

bool IsTest(std::string_view name);
// `name` is one of them. InvalidArgument for what the test does not take.
Result<bool> ApplyTest(std::string_view name, const Value& value, const Arguments& arguments);

}  // namespace winnow::jinja
