// Numbers as people read them. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace winnow {

// Thousands grouped: 1,234,567.
std::string Grouped(int64_t number);

// The grouped numbers of all ranks: "9,830,400 + 4,915,200".
std::string PerRank(const std::vector<int64_t>& values);

// A number of bytes with three digits of the largest binary unit that it fills: "93.8 MiB", "17 bytes".
std::string BinarySize(int64_t bytes);

// A hash: 16 hex digits.
std::string Hex(uint64_t value);

}  // namespace winnow
