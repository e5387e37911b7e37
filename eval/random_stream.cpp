#include "eval/random_stream.h"

#include <set>

#include "base/check.h"

namespace winnow {

uint32_t RandomStream::Next() {
  if (drawn_ % 4 == 0) {
    const uint32_t stream = task_ << 8 | part_;
    block_ = Philox(seed_, {drawn_ / 4, stream, sample_, uint32_t(RandomPurpose::kEvalTask)});
  }
  return block_[drawn_++ % 4];
}

int64_t RandomStream::Below(int64_t count) {
  WINNOW_CHECK(count > 0 && count <= int64_t(1) << 31);
  return int64_t(uint64_t(Next()) * uint64_t(count) >> 32);
}

std::vector<int64_t> RandomStream::Sample(int64_t limit, int64_t count) {
  WINNOW_CHECK(count <= limit);
  std::vector<int64_t> numbers;
  std::set<int64_t> taken;
  while (int64_t(numbers.size()) < count) {
    // Floyd's algorithm takes one draw a number, however full the range is.
    const int64_t last = limit - count + int64_t(numbers.size());
    const int64_t drawn = Below(last + 1);
    const int64_t number = taken.insert(drawn).second ? drawn : last;
    taken.insert(number);
    numbers.push_back(number);
  }
  Shuffle(&numbers);
  return numbers;
}

std::string RandomStream::Letters(char first, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += char(first + Below(26));
  return text;
}

std::string RandomStream::Digits(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += char(i == 0 ? '1' + Below(9) : '0' + Below(10));
  return text;
}

std::string RandomStream::Uuid() {
  constexpr std::string_view kPattern = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
  std::string text;
  for (char c : kPattern) {
    if (c == 'x') c = "0123456789abcdef"[Below(16)];
    if (c == 'y') c = "89ab"[Below(4)];
    text += c;
  }
  return text;
}

}  // namespace winnow
