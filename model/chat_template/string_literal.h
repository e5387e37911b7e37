// What stands between the quotes of a text in a template. Pure function.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace winnow::jinja {

// Python's escapes replaced: \n, \x41, \u00e9 and so on; one that Python does not know stays as it is. BadFile for
// numbers cut short or out of range, and for names (\N{...}).
Result<std::string> UnescapeLiteral(std::string_view literal);

}  // namespace winnow::jinja
