// What a reader may hold at a time while it reads one hostile input, whatever the input says. For the fuzz targets
// only: it counts through the hooks of the address sanitizer's allocator. One thread.
#pragma once

#include <cstddef>

namespace winnow {

// While it lives, the program ends with a stack trace (as for any other crash, so that libFuzzer keeps the input) where
// more than `base_bytes + bytes_per_byte * input_bytes` are allocated since it was made and not yet freed.
class MemoryLimit {
 public:
  MemoryLimit(size_t base_bytes, size_t bytes_per_byte, size_t input_bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

}  // namespace winnow
