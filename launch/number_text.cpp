#include "launch/number_text.h"

#include <fmt/format.h>

namespace winnow {

std::string Grouped(int64_t number) {
  std::string digits = std::to_string(number);
  const int64_t first = number < 0 ? 1 : 0;
  for (int64_t at = int64_t(digits.size()) - 3; at > first; at -= 3) digits.insert(size_t(at), ",");
  return digits;
}

std::string PerRank(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t value : values) text += (text.empty() ? "" : " + ") + Grouped(value);
  return text;
}

std::string BinarySize(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double size = double(bytes);
  const char* unit = "bytes";
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}) {
    if (size < 1023.5) break;  // 1023.6 would be shown as 1024
    size /= 1024;
    unit = larger;
  }
  return fmt::format("{:.{}f} {}", size, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, unit);
}

std::string Hex(uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace winnow
