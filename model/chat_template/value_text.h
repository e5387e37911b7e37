// Values as text: as Python's str() and repr() print them, and as json.dumps writes them. Pure functions.
#pragma once

#include <string>

#include "base/status.h"
#include "model/chat_template/value.h"

namespace winnow::jinja {

// repr(float): the shortest digits that read back as the same number.
std::string FloatText(double value);

// str(). InvalidArgument for what has no text that does not depend on the run: functions, iterators, views.
Result<MarkedText> ToText(const Value& value);
// repr().
Result<MarkedText> ToRepr(const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent = std::nullopt;  // of one level; none: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
Result<MarkedText> ToJson(const Value& value, const JsonStyle& style);

}  // namespace winnow::jinja
