// UTF-8 by the table of well-formed sequences in the Unicode Standard (chapter 3, table 3-7). Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace winnow {

enum class Utf8Kind {
  kValid,       // a whole code point
  kIncomplete,  // the text ends inside what may still become a code point
  kInvalid,     // a maximal subpart: what decoders replace by one U+FFFD
};

struct Utf8Unit {
  Utf8Kind kind;
  size_t num_bytes;  // 1 or more
};

// The unit at the beginning of `text`, which is not empty.
Utf8Unit FirstUtf8Unit(std::string_view text);

// The offset of the first byte that is not part of valid UTF-8 (an unfinished code point at the end is not), if any.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

}  // namespace winnow
