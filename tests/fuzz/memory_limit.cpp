#include "tests/fuzz/memory_limit.h"

#include <sanitizer/allocator_interface.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace winnow {
namespace {

bool counting = false;
int64_t live_bytes = 0;  // negative once something older than the limit is freed
int64_t most_bytes = 0;

void OnMalloc(const volatile void*, size_t size) {
  if (!counting) return;
  live_bytes += int64_t(size);
  if (live_bytes <= most_bytes) return;
  counting = false;
  std::fprintf(stderr, "expected at most %lld bytes held for this input, found %lld\n",
               static_cast<long long>(most_bytes), static_cast<long long>(live_bytes));
  std::abort();
}

void OnFree(const volatile void* pointer) {
  if (!counting || pointer == nullptr) return;
  live_bytes -= int64_t(__sanitizer_get_allocated_size(pointer));
}

}  // namespace

MemoryLimit::MemoryLimit(size_t base_bytes, size_t bytes_per_byte, size_t input_bytes) {
  static const int installed = __sanitizer_install_malloc_and_free_hooks(OnMalloc, OnFree);
  if (installed == 0) std::abort();
  live_bytes = 0;
  most_bytes = int64_t(base_bytes + bytes_per_byte * input_bytes);
  counting = true;
}

MemoryLimit::~MemoryLimit() {
  counting = false;
}

}  // namespace winnow
