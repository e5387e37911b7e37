// Plain data to bytes and back, for what ranks of one build send each other (host byte order, no versioning). Lengths
// are checked on reading; a mismatch is a programmer mistake, since both ends are the same program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/check.h"

namespace winnow {

class ByteWriter {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void Write(const T& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void WriteAll(std::span<const T> values) {
    Write(uint64_t(values.size()));
    const auto bytes = std::as_bytes(values);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void Write(const std::string& text) { WriteAll(std::span<const char>(text)); }

  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> T Read() {
    T value;
    std::memcpy(&value, Next(sizeof(T)), sizeof(T));
    return value;
  }
  template <class T>
  requires std::is_arithmetic_v<T> std::vector<T> ReadAll() {
    const auto count = size_t(Read<uint64_t>());
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), Next(count * sizeof(T)), count * sizeof(T));
    return values;
  }
  std::string ReadString() {
    const auto characters = ReadAll<char>();
    return {characters.begin(), characters.end()};
  }
  bool AtEnd() const { return at_ == bytes_.size(); }

 private:
  const std::byte* Next(size_t count) {
    WINNOW_CHECK(count <= bytes_.size() - at_);
    at_ += count;
    return bytes_.data() + at_ - count;
  }
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

}  // namespace winnow
