#include "model/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace winnow {
namespace {

constexpr std::align_val_t kAlignment{64};

Status CannotRead(const std::string& path, const std::string& why) {
  return BadFile(path + ": cannot read: " + why);
}

}  // namespace

void FileBytes::Release::operator()(const uint8_t* data) const {
  if (mapped_bytes > 0) {
    munmap(const_cast<uint8_t*>(data), mapped_bytes);
  } else {
    ::operator delete(const_cast<uint8_t*>(data), kAlignment);
  }
}

Result<FileBytes> FileBytes::Map(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must fail below instead of waiting for a writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return CannotRead(path, std::strerror(errno));
  struct stat info {};
  Status status;
  void* data = MAP_FAILED;
  if (fstat(file, &info) != 0) {
    status = CannotRead(path, std::strerror(errno));
  } else if (!S_ISREG(info.st_mode)) {
    status = CannotRead(path, "expected a regular file, found a directory or a device");
  } else if (info.st_size == 0) {
    status = CannotRead(path, "the file is empty");
  } else {
    data = mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED && errno == ENOMEM) {
      status = OutOfMemory(path + ": " + std::to_string(info.st_size) + " bytes could not be mapped into memory");
    } else if (data == MAP_FAILED) {
      status = CannotRead(path, std::string("mmap: ") + std::strerror(errno));
    }
  }
  close(file);
  if (!status.ok()) return status;
  const size_t size = size_t(info.st_size);
  return FileBytes(static_cast<const uint8_t*>(data), size, size);
}

void FileBytes::DropPages(std::span<const uint8_t> part) const {
  if (data_.get_deleter().mapped_bytes == 0) return;
  static const auto page_bytes = uintptr_t(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(part.data()) + page_bytes - 1) / page_bytes * page_bytes;
  const uintptr_t end = reinterpret_cast<uintptr_t>(part.data() + part.size()) / page_bytes * page_bytes;
  // A refusal costs memory, not correctness.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

FileBytes FileBytes::FromVector(const std::vector<uint8_t>& bytes) {
  auto* data = static_cast<uint8_t*>(::operator new(bytes.size(), kAlignment));
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  return FileBytes(data, bytes.size(), 0);
}

}  // namespace winnow
