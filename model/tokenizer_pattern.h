// The regular expressions of tokenizer.json files, which are written for Oniguruma, as PCRE2 patterns that match the
// same. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace winnow {

// What is the same in both passes through; \s and \S become Unicode's White_Space, which PCRE2's own are not quite.
// InvalidArgument, naming the construct, for everything in which the two differ or may (\w, \b, anchors, sets inside
// sets, names of scripts, inline options other than a group's (?i:...)) and for more than 16 KiB.
Result<std::string> TranslatePattern(std::string_view pattern);

// A pattern that matches this text and nothing else.
std::string PatternOfText(std::string_view text);

}  // namespace winnow
