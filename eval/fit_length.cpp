#include "eval/fit_length.h"

#include <algorithm>

namespace winnow {

Result<int64_t> LargestThatFits(int64_t least, int64_t most, int64_t room,
                                const std::function<Result<int64_t>(int64_t units)>& count) {
  int64_t fits = least, too_many = most + 1;
  // Doubling first: a guess far beyond the room would cost more than all others together.
  int64_t step = std::max<int64_t>(fits, 8);
  while (fits + 1 < too_many) {
    const int64_t next = step > 0 ? std::min(fits + step, too_many - 1) : fits + (too_many - fits) / 2;
    WINNOW_ASSIGN_OR_RETURN(const int64_t tokens, count(next));
    if (tokens <= room) {
      fits = next;
      step *= 2;
    } else {
      too_many = next;
      step = 0;  // from here on by halves
    }
  }
  return fits;
}

}  // namespace winnow
