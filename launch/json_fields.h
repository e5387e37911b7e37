// One line of a prompts file: a flat JSON object. Nothing of it is trusted: no nesting depth, length or number in it
// can do more than make the line refused. Any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"

namespace winnow {

struct JsonField {
  std::string name;
  nlohmann::json value;  // an array or object is left empty: it is only known to be one
};

// In the order of the line, names distinct. InvalidArgument if the line is no JSON object or names a field twice.
Result<std::vector<JsonField>> ParseJsonFields(const std::string& line);

// A value for messages: one line, text cut to about 60 bytes, "an array" and "an object" for what holds others.
std::string Describe(const nlohmann::json& value);

}  // namespace winnow
