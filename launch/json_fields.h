// JSON Lines files of the user (prompts, texts): a flat JSON object a line. Nothing of it is trusted: no nesting depth,
// length or number in it can do more than make the line refused. Any thread.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"

namespace winnow {

struct JsonField {
  std::string name;
  // An object is left empty, as are arrays and objects inside an array: they are only known to be ones.
  nlohmann::json value;
};

// In the order of the line, names distinct. InvalidArgument if the line is no JSON object or names a field twice.
Result<std::vector<JsonField>> ParseJsonFields(const std::string& line);

// Calls take(where, fields) for every line of a file that is not blank, in order; where is "path line 3".
// InvalidArgument with that in front for the first line that is no such object or that `take` refuses.
using TakeJsonLine = std::function<Status(const std::string& where, const std::vector<JsonField>& fields)>;
Status ForEachJsonLine(const std::string& path, const std::string& content, const TakeJsonLine& take);

// A value for messages: one line, text cut to about 60 bytes, "an array" and "an object" for what holds others.
std::string Describe(const nlohmann::json& value);

}  // namespace winnow
