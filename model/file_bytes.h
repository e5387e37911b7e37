// The bytes of a file, mapped read-only or held in memory. Owned by the one object that parses them; move-only.
// Immutable, so any thread may read. A file that is truncated by somebody else while mapped kills the program
// (SIGBUS), as with every mmap: model files must not be rewritten in place.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace winnow {

class FileBytes {
 public:
  // Maps a regular, non-empty file. BadFile names the path and the reason.
  static Result<FileBytes> Map(const std::string& path);
  // Copies `bytes` to memory aligned to 64; nothing lies after the last byte, so that a sanitizer sees over-reads.
  static FileBytes FromVector(const std::vector<uint8_t>& bytes);

  std::span<const uint8_t> bytes() const { return {data_.get(), size_}; }

  // These bytes of the file are not needed for now: whole pages of them leave this process (not the page cache, from
  // which they come back when they are read again). Nothing happens to bytes that are not mapped.
  void DropPages(std::span<const uint8_t> part) const;

 private:
  struct Release {
    size_t mapped_bytes = 0;  // 0: memory of operator new
    void operator()(const uint8_t* data) const;
  };
  FileBytes(const uint8_t* data, size_t size, size_t mapped_bytes) : data_(data, Release{mapped_bytes}), size_(size) {}

  std::unique_ptr<const uint8_t, Release> data_;
  size_t size_;
};

}  // namespace winnow
