// Reads the header, metadata and tensor table of a GGUF file and checks all of it. Internal to model/gguf.
#pragma once

#include "model/gguf.h"

namespace winnow {

class GgufParser {
 public:
  // Takes a file of which only path and bytes are set; returns it filled, or BadFile with what was expected and found.
  static Result<GgufFile> Parse(GgufFile file);

 private:
  // The largest numbers a sane file holds; above them the file is called bad before anything is allocated.
  static constexpr uint64_t kMaxKeyBytes = 65535;      // of the format
  static constexpr uint64_t kMaxTensorNameBytes = 64;  // of the format
  static constexpr uint64_t kMaxAlignment = 1 << 20;

  explicit GgufParser(GgufFile file) : file_(std::move(file)), bytes_(file_.file_.bytes()) {}

  Status ParseAll();
  Status ParseHeader();
  Status ParseMetadata();
  Status ParseValue(const std::string& key, GgufType type, GgufValue* value);
  Status SkipElements(const std::string& key, GgufType type, uint64_t count);
  Status ParseAlignment();
  Status ParseTensorTable();
  Status ParseTensor(uint64_t index);
  Status PlaceTensors();

  uint64_t remaining() const { return bytes_.size() - position_; }
  Status Truncated(const std::string& what, uint64_t needed_bytes) const;
  // A little-endian number; `what` names it in the message when the file ends before it.
  template <class T>
  Status Read(const std::string& what, T* value);
  Status ReadType(const std::string& what, GgufType* type);
  // A printable ASCII string of 1 to `max_bytes` bytes.
  Status ReadName(const std::string& what, uint64_t max_bytes, std::string* name);

  GgufFile file_;
  std::span<const uint8_t> bytes_;
  uint64_t position_ = 0;
  uint64_t num_tensors_ = 0;
  uint64_t num_keys_ = 0;
  uint64_t alignment_ = 32;        // the format's default
  std::vector<uint64_t> offsets_;  // of each tensor, from the start of the data section
};

}  // namespace winnow
