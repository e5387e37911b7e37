// A range of bytes in a text. Plain data, any thread.
#pragma once

#include <cstddef>

namespace winnow {

struct TextSpan {
  size_t begin, end;  // the byte after the last one

  bool operator==(const TextSpan&) const = default;
};

}  // namespace winnow
