#include "model/gguf_fingerprint.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/hash.h"

namespace winnow {
namespace {

class Hasher {
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
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

}  // namespace

uint64_t FingerprintOf(const GgufFile& file) {
  Hasher hasher;
  hasher.Add(file.metadata().size());
  for (const auto& [key, value] : file.metadata()) {
    hasher.Add(key);
    hasher.Add(uint64_t(value.type));
    hasher.Add(uint64_t(value.element_type));
    hasher.Add(value.count);
    hasher.Add(value.payload.data(), value.payload.size());
  }
  for (const GgufTensor& tensor : file.gguf_tensors()) {
    hasher.Add(tensor.name);
    hasher.Add(uint64_t(tensor.dtype));
    hasher.Add(tensor.shape.data(), tensor.shape.size() * sizeof(int64_t));
    hasher.Add(uint64_t(tensor.num_bytes));
  }
  return hasher.hash();
}

}  // namespace winnow
