#include "model/chat_template/arguments.h"

#include <algorithm>

namespace winnow::jinja {

Result<std::vector<std::optional<Value>>> Arguments::Bind(std::string_view function,
                                                          std::initializer_list<std::string_view> parameters,
                                                          size_t num_required) const {
  const std::string where = std::string(function) + ": ";
  std::vector<std::optional<Value>> bound(parameters.size());
  if (positional.size() > parameters.size()) {
    return InvalidArgument(where + "expected at most " + std::to_string(parameters.size()) + " arguments, found " +
                           std::to_string(positional.size()));
  }
  std::copy(positional.begin(), positional.end(), bound.begin());
  for (const auto& [name, value] : keywords) {
    const auto* parameter = std::find(parameters.begin(), parameters.end(), name);
    if (parameter == parameters.end()) return InvalidArgument(where + "no argument has the name '" + name + "'");
    auto& slot = bound[size_t(parameter - parameters.begin())];
    if (slot) return InvalidArgument(where + "two values for the argument '" + name + "'");
    slot = value;
  }
  for (size_t i = 0; i < num_required; ++i) {
    if (!bound[i])
      return InvalidArgument(where + "the argument '" + std::string(parameters.begin()[i]) + "' is missing");
  }
  return bound;
}

Result<int64_t> IntegerOf(const Value& value, std::string_view what) {
  if (const auto integer = ToInteger(value)) return *integer;
  return InvalidArgument(std::string(what) + ": expected an int, found " + TypeName(value));
}

Result<const MarkedText*> TextOf(const Value& value, std::string_view what) {
  if (value.text()) return &value.text()->text;
  if (value.is_undefined()) return InvalidArgument(value.undefined()->what);
  return InvalidArgument(std::string(what) + ": expected a str, found " + TypeName(value));
}

}  // namespace winnow::jinja
