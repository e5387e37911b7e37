#include "model/gguf_fingerprint.h"

#include "model/file_hasher.h"
#include "model/weights_fingerprint.h"

namespace winnow {

uint64_t FingerprintOf(const GgufFile& file) {
  FileHasher hasher;
  hasher.Add(file.metadata().size());
  for (const auto& [key, value] : file.metadata()) {
    hasher.Add(std::string_view(key));
    hasher.Add(uint64_t(value.type));
    hasher.Add(uint64_t(value.element_type));
    hasher.Add(value.count);
    hasher.Add(value.payload.data(), value.payload.size());
  }
  WINNOW_CHECK(AddWeights(file, &hasher).ok());  // a mapped file makes no rows
  return hasher.hash();
}

}  // namespace winnow
