#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/printable_text.h"
#include "model/safetensors_header.h"
#include "model/whole_file.h"

namespace winnow {
namespace {

constexpr uint64_t kLengthBytes = 8;
// As in the library that defines the format.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct TypeInfo {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<TypeInfo, 15> kTypes{{{"F64", 8},
                                           {"F32", 4},
                                           {"F16", 2},
                                           {"BF16", 2},
                                           {"I64", 8},
                                           {"I32", 4},
                                           {"I16", 2},
                                           {"I8", 1},
                                           {"U64", 8},
                                           {"U32", 4},
                                           {"U16", 2},
                                           {"U8", 1},
                                           {"BOOL", 1},
                                           {"F8_E4M3", 1},
                                           {"F8_E5M2", 1}}};

std::optional<SafetensorsType> FindType(std::string_view name) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return SafetensorsType(i);
  }
  return std::nullopt;
}

// Bytes that a tensor of this shape has, or none if 64 bits do not hold the number.
std::optional<uint64_t> BytesOfShape(const std::vector<uint64_t>& shape, uint64_t element_bytes) {
  uint64_t bytes = element_bytes;
  for (uint64_t size : shape) {
    if (size > uint64_t(INT64_MAX) || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace

std::string_view Name(SafetensorsType type) {
  return kTypes[size_t(type)].name;
}

int64_t ElementBytes(SafetensorsType type) {
  return kTypes[size_t(type)].bytes;
}

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "" : ", ") + (size < 0 ? "any" : std::to_string(size));
  return "[" + text + "]";
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  WINNOW_ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::Map(path));
  return Parse(std::move(bytes), path);
}

Result<SafetensorsFile> SafetensorsFile::Parse(FileBytes bytes, const std::string& name) {
  SafetensorsFile file(std::move(bytes), name);
  if (Status status = file.ReadHeader(); !status.ok()) return BadFile(name + ": " + status.message());
  return file;
}

Status SafetensorsFile::ReadHeader() {
  const std::span<const uint8_t> all = bytes_.bytes();
  if (all.size() < kLengthBytes) {
    return BadFile("no safetensors file: expected 8 bytes of header length, found " + std::to_string(all.size()));
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, all.data(), kLengthBytes);
  const uint64_t most = std::min<uint64_t>(kMaxHeaderBytes, all.size() - kLengthBytes);
  if (header_bytes > most) {
    return BadFile("no safetensors file, or cut off: expected a header of at most " + std::to_string(most) +
                   " bytes, found " + std::to_string(header_bytes));
  }
  WINNOW_ASSIGN_OR_RETURN(
      SafetensorsHeader header,
      ParseSafetensorsHeader({reinterpret_cast<const char*>(all.data()) + kLengthBytes, size_t(header_bytes)}));
  metadata_ = std::move(header.metadata);
  const std::span<const uint8_t> data = all.subspan(kLengthBytes + header_bytes);
  // In the order of the data, so that each begins where the one before ends.
  std::vector<std::tuple<uint64_t, uint64_t, const std::string*>> parts;
  for (const auto& [name, entry] : header.entries) {
    const auto refuse = [&, &tensor = name](const std::string& message) {
      return BadFile("tensor " + Printable(tensor) + ": " + message);
    };
    const auto type = FindType(entry.dtype);
    if (!type) return refuse("unknown type '" + Printable(entry.dtype.substr(0, 60)) + "'");
    const uint64_t begin = entry.data_offsets[0], end = entry.data_offsets[1];
    if (begin > end || end > data.size()) {
      return refuse("expected bytes within the " + std::to_string(data.size()) + " of the data, found " +
                    std::to_string(begin) + " to " + std::to_string(end) + " in a file of " +
                    std::to_string(all.size()) + " bytes" + (begin < end ? ": was it cut off?" : ""));
    }
    const auto expected = BytesOfShape(entry.shape, uint64_t(ElementBytes(*type)));
    if (!expected) return refuse("the shape has more elements than 64 bits can count");
    const std::vector<int64_t> shape(entry.shape.begin(), entry.shape.end());
    if (*expected != end - begin) {
      return refuse(entry.dtype + " " + ShapeText(shape) + " needs " + std::to_string(*expected) + " bytes, found " +
                    std::to_string(end - begin));
    }
    parts.emplace_back(begin, end, &name);
    tensors_[name] = {*type, shape, data.subspan(begin, end - begin)};
  }
  std::sort(parts.begin(), parts.end());
  uint64_t at = 0;
  for (const auto& [begin, end, name] : parts) {
    if (begin != at) {
      return BadFile("tensor " + Printable(*name) + ": expected its data at byte " + std::to_string(at) + ", found " +
                     std::to_string(begin) +
                     (begin < at ? ", which overlaps the one before" : ", which leaves a hole"));
    }
    at = end;
  }
  if (at == data.size()) return OkStatus();
  return BadFile("expected " + std::to_string(at) + " bytes of data, found " + std::to_string(data.size()));
}

Result<SafetensorsTensor> SafetensorsFile::Get(const std::string& name, SafetensorsType type,
                                               std::span<const int64_t> shape) const {
  const std::string wanted = std::string(winnow::Name(type)) + " " + ShapeText(shape);
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return BadFile(path_ + ": tensor " + name + ": expected " + wanted + ", found none");
  const SafetensorsTensor& tensor = found->second;
  const bool fits =
      std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end(),
                 [](int64_t wanted_size, int64_t size) { return wanted_size < 0 || wanted_size == size; });
  if (tensor.type == type && fits) return tensor;
  return BadFile(path_ + ": tensor " + name + ": expected " + wanted + ", found " +
                 std::string(winnow::Name(tensor.type)) + " " + ShapeText(tensor.shape));
}

Result<std::string> SafetensorsFile::GetMetadata(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return BadFile(path_ + ": metadata: expected '" + key + "', found none");
  return found->second;
}

Status WriteSafetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                        const std::map<std::string, SafetensorsTensor>& tensors) {
  std::vector<const std::pair<const std::string, SafetensorsTensor>*> order;
  for (const auto& named : tensors) order.push_back(&named);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return ElementBytes(a->second.type) > ElementBytes(b->second.type);
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const auto* named : order) {
    const SafetensorsTensor& tensor = named->second;
    const auto bytes = BytesOfShape({tensor.shape.begin(), tensor.shape.end()}, uint64_t(ElementBytes(tensor.type)));
    WINNOW_CHECK(named->first != "__metadata__" && bytes == tensor.bytes.size());
    header[named->first] = {
        {"dtype", Name(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data begins at a multiple of 8
  const uint64_t header_bytes = text.size();
  WINNOW_CHECK(header_bytes <= kMaxHeaderBytes);
  const auto bytes_of = [](const void* from, size_t count) {
    return std::span(static_cast<const uint8_t*>(from), count);
  };
  std::vector<std::span<const uint8_t>> pieces{bytes_of(&header_bytes, kLengthBytes),
                                               bytes_of(text.data(), text.size())};
  for (const auto* named : order) pieces.push_back(named->second.bytes);
  return WriteWholeFile(path, pieces);
}

}  // namespace winnow
