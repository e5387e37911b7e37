// The safetensors format: named tensors and text metadata in one file, 8 bytes of header length, a JSON header, data.
// Both ways are strict: nothing in a file can do more than make it refused. A file is owned by whoever opened it and is
// immutable, so any thread may read; the spans it gives live as long as it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/file_bytes.h"

namespace winnow {

// Elements are little-endian. kF8E4M3 and kF8E5M2 are the formats of that name; kBool is a byte.
enum class SafetensorsType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2,
};
std::string_view Name(SafetensorsType type);  // as in the header: "F32", "BF16"
int64_t ElementBytes(SafetensorsType type);

struct SafetensorsTensor {
  SafetensorsType type = SafetensorsType::kF32;
  std::vector<int64_t> shape;      // row-major, slowest first; no dimension: a scalar
  std::span<const uint8_t> bytes;  // product of shape * ElementBytes(type), not aligned to anything

  int64_t num_elements() const { return int64_t(bytes.size()) / ElementBytes(type); }
};

class SafetensorsFile {
 public:
  // Maps the file. BadFile naming the path, the tensor, what was expected and what was found: a header that is no JSON
  // object of the format or longer than 100 MB, a name or field given twice, unknown fields and types, shapes whose
  // product overflows or does not fit the bytes, data that overlaps, has holes or does not end with the file.
  static Result<SafetensorsFile> Open(const std::string& path);
  // The same of bytes in memory; `name` is for messages.
  static Result<SafetensorsFile> Parse(FileBytes bytes, const std::string& name);

  const std::string& path() const { return path_; }
  uint64_t num_file_bytes() const { return bytes_.bytes().size(); }
  // The bytes of a tensor are not needed for now: see FileBytes::DropPages.
  void DropPages(const SafetensorsTensor& tensor) const { bytes_.DropPages(tensor.bytes); }
  // By name.
  const std::map<std::string, SafetensorsTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // BadFile if there is none of the name, or if it has another type or shape. A dimension of -1 may have any size.
  Result<SafetensorsTensor> Get(const std::string& name, SafetensorsType type, std::span<const int64_t> shape) const;
  // BadFile if there is none.
  Result<std::string> GetMetadata(const std::string& key) const;

 private:
  SafetensorsFile(FileBytes bytes, const std::string& path) : bytes_(std::move(bytes)), path_(path) {}
  Status ReadHeader();

  FileBytes bytes_;
  std::string path_;
  std::map<std::string, SafetensorsTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// A shape for messages: "[3, 64]".
std::string ShapeText(std::span<const int64_t> shape);

// Writes a file that holds all of it, or leaves what was there: model/whole_file.h. Names are distinct; names and
// metadata are UTF-8. Data stands in the order of element sizes, largest first, so that all of it is aligned.
Status WriteSafetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                        const std::map<std::string, SafetensorsTensor>& tensors);

}  // namespace winnow
