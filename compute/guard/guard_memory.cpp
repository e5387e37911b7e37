// The buffers of the guard backend: mapping, opening and closing them.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "compute/guard/guard_backend.h"

namespace winnow {
namespace {

constexpr int64_t kAlignment = 64;

int64_t SystemPageBytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

int64_t RoundUp(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

GuardBackend::~GuardBackend() {
  WINNOW_CHECK(regions_.empty() && "every buffer is given back before its backend ends");
}

std::byte* GuardBackend::DoAllocate(int64_t bytes) {
  const int64_t guard = SystemPageBytes();
  const int64_t page_bytes = RoundUp(std::max<int64_t>(bytes, 1), guard);
  void* mapping = mmap(nullptr, size_t(page_bytes + 2 * guard), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  std::byte* pages = static_cast<std::byte*>(mapping) + guard;
  std::byte* data = pages + page_bytes - RoundUp(bytes, kAlignment);
  regions_[data] = Region{pages, page_bytes, bytes};
  return data;
}

void GuardBackend::DoFree(std::byte* data, int64_t) {
  const auto found = regions_.find(data);
  WINNOW_CHECK(found != regions_.end());
  const Region& region = found->second;
  WINNOW_CHECK(region.readers == 0 && region.writers == 0 && "a buffer is closed before it is freed");
  const int64_t guard = SystemPageBytes();
  WINNOW_CHECK(munmap(region.pages - guard, size_t(region.page_bytes + 2 * guard)) == 0);
  regions_.erase(found);
}

GuardBackend::Region& GuardBackend::Find(const Tensor& tensor) {
  auto after = regions_.upper_bound(tensor.data());
  const bool is_inside = after != regions_.begin() && tensor.data() + tensor.bytes() <=
                                                          std::prev(after)->first + std::prev(after)->second.data_bytes;
  WINNOW_CHECK(is_inside && "the tensor lies inside one buffer of this backend");
  return std::prev(after)->second;
}

void GuardBackend::Protect(const Region& region) {
  const int access = region.writers > 0 ? PROT_READ | PROT_WRITE : region.readers > 0 ? PROT_READ : PROT_NONE;
  WINNOW_CHECK(mprotect(region.pages, size_t(region.page_bytes), access) == 0);
}

// Tensors without elements need no buffer.
void GuardBackend::Open(const Tensor& tensor, Access access) {
  if (tensor.bytes() == 0) return;
  Region& region = Find(tensor);
  ++(access == Access::kWrite ? region.writers : region.readers);
  Protect(region);
}

void GuardBackend::Close(const Tensor& tensor, Access access) {
  if (tensor.bytes() == 0) return;
  Region& region = Find(tensor);
  int& count = access == Access::kWrite ? region.writers : region.readers;
  WINNOW_CHECK(count > 0 && "every EndTransfer follows a BeginTransfer");
  --count;
  Protect(region);
}

void GuardBackend::BeginTransfer(const Tensor& tensor) {
  Open(tensor, Access::kWrite);
  inner_->BeginTransfer(tensor);
}

void GuardBackend::EndTransfer(const Tensor& tensor) {
  inner_->EndTransfer(tensor);
  Close(tensor, Access::kWrite);
}

}  // namespace winnow
