// Statements of a chat template. Pure function.
#pragma once

#include <string_view>

#include "base/status.h"
#include "model/chat_template/limits.h"
#include "model/chat_template/syntax.h"

namespace winnow::jinja {

// BadFile naming line and construct for what is wrong, too deep or not supported. `source` is UTF-8.
Result<Block> ParseTemplate(std::string_view source, const TemplateLimits& limits);

}  // namespace winnow::jinja
