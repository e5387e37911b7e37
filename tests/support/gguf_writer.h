// Makes GGUF files in memory for tests, good ones and, by the Raw calls, bad ones. Not for production: nothing is
// checked, so that a test can write what the reader must refuse. Owned by one test; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compute/dtype.h"
#include "model/gguf.h"

namespace winnow {

class GgufWriter {
 public:
  // Metadata; keys appear in the order of the calls.
  void AddUint32(std::string_view key, uint32_t value);
  void AddFloat32(std::string_view key, float value);
  void AddBool(std::string_view key, bool value);
  void AddString(std::string_view key, std::string_view value);
  void AddStringArray(std::string_view key, const std::vector<std::string>& values);
  void AddInt32Array(std::string_view key, const std::vector<int32_t>& values);
  void AddFloat32Array(std::string_view key, const std::vector<float>& values);
  // Any type: `payload` is the value's bytes as in the file, without the type number.
  void AddRaw(std::string_view key, uint32_t type, const std::vector<uint8_t>& payload);

  // shape in GGUF order (columns first); `bytes` as in the file, BytesOf(dtype, product of shape) of them.
  void AddTensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape, std::vector<uint8_t> bytes);
  void AddFloatTensor(std::string_view name, const std::vector<int64_t>& shape, const std::vector<float>& values);
  // A tensor whose type number, shape and offset may contradict its bytes. No offset: the next free one.
  void AddRawTensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& shape,
                    std::vector<uint8_t> bytes, std::optional<uint64_t> offset = std::nullopt);

  // Of the header: magic "GGUF", version 3, the counts of what was added, unless set.
  uint32_t magic = 0x46554747;
  uint32_t version = 3;
  std::optional<uint64_t> num_tensors;
  std::optional<uint64_t> num_keys;
  // Where tensors are placed. Writes no key; a file with another alignment than 32 must also add general.alignment.
  uint64_t alignment = 32;

  std::vector<uint8_t> Build() const;
  // Writes Build() to `path`; aborts the test program when it cannot.
  void WriteTo(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    uint32_t type;
    std::vector<uint64_t> shape;
    std::vector<uint8_t> bytes;
    std::optional<uint64_t> offset;
  };
  std::vector<uint8_t> metadata_;
  uint64_t num_added_keys_ = 0;
  std::vector<Tensor> tensors_;
};

// The bytes of a trivially copyable value or of a GGUF string (length and characters), for AddRaw.
template <class T>
void AppendBytes(std::vector<uint8_t>* bytes, const T& value) {
  const auto* begin = reinterpret_cast<const uint8_t*>(&value);
  bytes->insert(bytes->end(), begin, begin + sizeof value);
}
void AppendGgufString(std::vector<uint8_t>* bytes, std::string_view text);

}  // namespace winnow
