// Safetensors files: header, tensors, metadata. Half of the changes are made to the JSON with its length put right, so
// that they reach the reader of the header.
#include "model/safetensors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_limit.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace winnow;
  const std::vector<uint8_t> bytes(data, data + size);
  const MemoryLimit limit(size_t(1) << 20, 64, size);
  const auto file = SafetensorsFile::Parse(FileBytes::FromVector(bytes), "fuzz.safetensors");
  if (!file.ok()) {
    CheckRefusal(file.status());
    return 0;
  }
  for (const auto& [name, tensor] : file->tensors()) {
    Touch({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
    WINNOW_CHECK(file->Get(name, tensor.type, tensor.shape).ok());
    if (const auto row = file->Get(name, SafetensorsType::kF32, {}); !row.ok()) CheckRefusal(row.status());
  }
  for (const auto& [key, value] : file->metadata()) WINNOW_CHECK(file->GetMetadata(key).ok());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  uint64_t header_bytes = 0;
  if (size >= sizeof header_bytes) std::memcpy(&header_bytes, data, sizeof header_bytes);
  const bool is_whole = size >= sizeof header_bytes && header_bytes <= size - sizeof header_bytes;
  if (seed % 2 == 0 || !is_whole) return LLVMFuzzerMutate(data, size, max_size);
  const uint8_t* const header = data + sizeof header_bytes;
  const uint8_t* const end = data + size;
  std::vector<uint8_t> json(header, header + header_bytes), rest(header + header_bytes, end);
  const size_t room = max_size - sizeof header_bytes - rest.size();
  json.resize(std::max<size_t>(json.size(), std::min<size_t>(room, json.size() + 128)));
  header_bytes = LLVMFuzzerMutate(json.data(), header_bytes, json.size());
  std::memcpy(data, &header_bytes, sizeof header_bytes);
  std::copy(json.begin(), json.begin() + long(header_bytes), data + sizeof header_bytes);
  std::copy(rest.begin(), rest.end(), data + sizeof header_bytes + header_bytes);
  return sizeof header_bytes + header_bytes + rest.size();
}
