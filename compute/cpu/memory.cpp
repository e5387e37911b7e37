#include "compute/cpu/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace winnow::cpu {
namespace {

constexpr int64_t kMappedFrom = 1 << 20;
constexpr int64_t kMaxBytes = int64_t(1) << 47;  // of a 64-bit address space, so that sizes cannot overflow

}  // namespace

std::byte* AllocateMemory(int64_t bytes) {
  if (bytes > kMaxBytes) return nullptr;
  if (bytes < kMappedFrom) {
    const size_t size = size_t(bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0);
    void* data = std::aligned_alloc(64, size);
    if (data != nullptr) std::memset(data, 0, size);
    return static_cast<std::byte*>(data);
  }
  void* data = mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, size_t(bytes), MADV_HUGEPAGE);  // only advice: small pages are as right
  return static_cast<std::byte*>(data);
}

void FreeMemory(std::byte* data, int64_t bytes) {
  if (data == nullptr) return;
  if (bytes < kMappedFrom) {
    std::free(data);
  } else {
    munmap(data, size_t(bytes));
  }
}

bool Memory::Grow(int64_t bytes) {
  if (bytes <= bytes_) return true;
  FreeMemory(data_, bytes_);
  data_ = AllocateMemory(bytes);
  bytes_ = data_ == nullptr ? 0 : bytes;
  return data_ != nullptr;
}

}  // namespace winnow::cpu
