// Zeroed, aligned memory of the CPU backend. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace winnow::cpu {

// 64-byte aligned and zeroed; from 1 MiB on in huge pages where the kernel has them, touched by nobody yet (so that the
// thread that uses it first decides its NUMA node). Null if there is no memory.
std::byte* AllocateMemory(int64_t bytes);
void FreeMemory(std::byte* data, int64_t bytes);

// Owner of such memory that can grow, losing its content.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { FreeMemory(data_, bytes_); }

  // False if there is no memory; then it is empty.
  [[nodiscard]] bool Grow(int64_t bytes);
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace winnow::cpu
