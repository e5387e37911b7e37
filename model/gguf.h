// A GGUF model file (versions 2 and 3, little-endian), mapped read-only: typed metadata and tensors by name.
// Everything is checked on opening: every length, count, offset and type, before it is used. Owned by whoever loads
// the model; string views and tensor pointers live as long as the object (moving it keeps them valid).
// Immutable after opening, so any thread may read.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compute/dtype.h"
#include "model/file_bytes.h"
#include "model/tensor_source.h"

namespace winnow {

// Numbers as in the file.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};
std::string_view Name(GgufType type);

// "[576, 49152]", for messages.
std::string ShapeText(const std::vector<int64_t>& shape);

// One metadata value, still in file form. `payload` is checked: `count` elements of `element_type` (1 and `type` for a
// value that is no array), strings each as a 64-bit length and that many bytes.
struct GgufValue {
  GgufType type;
  GgufType element_type;
  uint64_t count;
  std::span<const uint8_t> payload;
};

struct GgufTensor : TensorInfo {
  const uint8_t* data;  // in the mapped file, aligned to the file's alignment (8 bytes or more)
};

class GgufFile : public TensorSource {
 public:
  // A whole model: of a file that is one of several parts (model/gguf_split.h), all of them.
  static Result<GgufFile> Open(const std::string& path);
  // The same from memory; `label` stands for the path in messages.
  static Result<GgufFile> FromBytes(const std::string& label, const std::vector<uint8_t>& bytes);

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  uint64_t num_file_bytes() const;  // of all parts

  bool Has(std::string_view key) const { return metadata_.contains(key); }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }

  // BadFile when the key is missing or of another kind. Any integer type will do for GetUint (not negative) and for
  // GetIntArray (which must fit in int64), float32 and float64 for GetFloat.
  Result<std::string_view> GetString(std::string_view key) const;
  Result<uint64_t> GetUint(std::string_view key) const;
  Result<double> GetFloat(std::string_view key) const;
  Result<bool> GetBool(std::string_view key) const;
  Result<std::vector<std::string_view>> GetStringArray(std::string_view key) const;
  Result<std::vector<int64_t>> GetIntArray(std::string_view key) const;

  // In file order.
  const std::vector<GgufTensor>& gguf_tensors() const { return tensors_; }
  // nullptr when there is none of that name.
  const GgufTensor* FindTensor(std::string_view name) const;
  // BadFile when there is none of that name.
  Result<const GgufTensor*> GetTensor(std::string_view name) const;

  // BadFile(path: message), for those who check what the file says.
  Status Bad(const std::string& message) const override { return BadFile(path_ + ": " + message); }

  const TensorInfo* Find(std::string_view name) const override { return FindTensor(name); }
  std::vector<const TensorInfo*> tensors() const override;
  Result<TensorRows> Rows(const TensorInfo& tensor, std::vector<int64_t> rows) const override;
  void Release(const TensorInfo& tensor) const override;

 private:
  friend class GgufParser;
  friend class GgufSplit;
  // One file, be it a part of several.
  static Result<GgufFile> OpenPart(const std::string& path);
  GgufFile(std::string path, FileBytes file) : path_(std::move(path)), file_(std::move(file)) {}
  Result<const GgufValue*> FindValue(std::string_view key) const;

  std::string path_;
  FileBytes file_;
  std::vector<FileBytes> more_files_;  // of a split model
  uint32_t version_ = 0;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
};

}  // namespace winnow
