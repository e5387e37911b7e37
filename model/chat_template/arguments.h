// The arguments of a call, filter or test, evaluated, and how they become parameters. One call.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/chat_template/value.h"

namespace winnow::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  // One value for each parameter of `function`, none where it was left out. InvalidArgument for more arguments than
  // parameters, unknown and repeated names, and fewer than `num_required`.
  Result<std::vector<std::optional<Value>>> Bind(std::string_view function,
                                                 std::initializer_list<std::string_view> parameters,
                                                 size_t num_required = 0) const;
};

// InvalidArgument naming `what` for a value of another type.
Result<int64_t> IntegerOf(const Value& value, std::string_view what);
Result<const MarkedText*> TextOf(const Value& value, std::string_view what);

}  // namespace winnow::jinja
