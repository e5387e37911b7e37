// A hash of what model files say, for ranks to compare that they opened the same. Not cryptographic. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/hash.h"
#include "model/tensor_source.h"

namespace winnow {

class FileHasher {
 public:
  void Add(uint64_t word) { hash_ = Mix64(hash_ ^ word); }
  void Add(const void* bytes, size_t count) {
    Add(count);
    for (size_t at = 0; at < count; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, static_cast<const char*>(bytes) + at, std::min(sizeof(word), count - at));
      Add(word);
    }
  }
  void Add(std::string_view text) { Add(text.data(), text.size()); }
  // Name, type and shape.
  void Add(const TensorInfo& tensor) {
    Add(std::string_view(tensor.name));
    Add(uint64_t(tensor.dtype));
    Add(tensor.shape.data(), tensor.shape.size() * sizeof(int64_t));
    Add(uint64_t(tensor.num_bytes));
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

}  // namespace winnow
