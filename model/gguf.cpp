#include "model/gguf.h"

#include <cstring>
#include <limits>

#include "model/gguf_parser.h"
#include "model/gguf_split.h"

namespace winnow {
namespace {

// The caller knows from the parser that the payload holds the value.
template <class T>
T Load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// An integer of any type as sign and 64 bits.
struct AnyInteger {
  bool negative;
  uint64_t bits;  // two's complement when negative
};

template <class T>
AnyInteger LoadInteger(const uint8_t* bytes) {
  const T value = Load<T>(bytes);
  return {value < T(0), uint64_t(value)};
}

bool IsInteger(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kUint16:
    case GgufType::kInt16:
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kUint64:
    case GgufType::kInt64:
      return true;
    default:
      return false;
  }
}

bool IsFloat(GgufType type) {
  return type == GgufType::kFloat32 || type == GgufType::kFloat64;
}

AnyInteger LoadAnyInteger(GgufType type, const uint8_t* bytes) {
  switch (type) {
    case GgufType::kUint8:
      return LoadInteger<uint8_t>(bytes);
    case GgufType::kInt8:
      return LoadInteger<int8_t>(bytes);
    case GgufType::kUint16:
      return LoadInteger<uint16_t>(bytes);
    case GgufType::kInt16:
      return LoadInteger<int16_t>(bytes);
    case GgufType::kUint32:
      return LoadInteger<uint32_t>(bytes);
    case GgufType::kInt32:
      return LoadInteger<int32_t>(bytes);
    case GgufType::kUint64:
      return LoadInteger<uint64_t>(bytes);
    default:
      WINNOW_CHECK(type == GgufType::kInt64);
      return LoadInteger<int64_t>(bytes);
  }
}

double LoadAnyFloat(GgufType type, const uint8_t* bytes) {
  return type == GgufType::kFloat32 ? double(Load<float>(bytes)) : Load<double>(bytes);
}

std::string Describe(const GgufValue& value) {
  if (value.type != GgufType::kArray) return std::string(Name(value.type));
  return "array of " + std::string(Name(value.element_type));
}

}  // namespace

std::string_view Name(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
      return "uint8";
    case GgufType::kInt8:
      return "int8";
    case GgufType::kUint16:
      return "uint16";
    case GgufType::kInt16:
      return "int16";
    case GgufType::kUint32:
      return "uint32";
    case GgufType::kInt32:
      return "int32";
    case GgufType::kFloat32:
      return "float32";
    case GgufType::kBool:
      return "bool";
    case GgufType::kString:
      return "string";
    case GgufType::kArray:
      return "array";
    case GgufType::kUint64:
      return "uint64";
    case GgufType::kInt64:
      return "int64";
    case GgufType::kFloat64:
      return "float64";
  }
  return "unknown";
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

Result<GgufFile> GgufFile::Open(const std::string& path) {
  WINNOW_ASSIGN_OR_RETURN(GgufFile file, OpenPart(path));
  if (GgufSplit::IsPart(file)) return GgufSplit::Join(std::move(file));
  return file;
}

uint64_t GgufFile::num_file_bytes() const {
  uint64_t sum = file_.bytes().size();
  for (const FileBytes& file : more_files_) sum += file.bytes().size();
  return sum;
}

Result<GgufFile> GgufFile::OpenPart(const std::string& path) {
  WINNOW_ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::Map(path));
  return GgufParser::Parse(GgufFile(path, std::move(bytes)));
}

Result<GgufFile> GgufFile::FromBytes(const std::string& label, const std::vector<uint8_t>& bytes) {
  return GgufParser::Parse(GgufFile(label, FileBytes::FromVector(bytes)));
}

Result<const GgufValue*> GgufFile::FindValue(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) return Bad("expected metadata key " + std::string(key) + ", found none");
  return &found->second;
}

Result<std::string_view> GgufFile::GetString(std::string_view key) const {
  WINNOW_ASSIGN_OR_RETURN(const GgufValue* value, FindValue(key));
  if (value->type != GgufType::kString) {
    return Bad(std::string(key) + ": expected a string, found " + Describe(*value));
  }
  const auto text = value->payload.subspan(sizeof(uint64_t));
  return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
}

Result<uint64_t> GgufFile::GetUint(std::string_view key) const {
  WINNOW_ASSIGN_OR_RETURN(const GgufValue* value, FindValue(key));
  if (!IsInteger(value->type)) return Bad(std::string(key) + ": expected an integer, found " + Describe(*value));
  const AnyInteger integer = LoadAnyInteger(value->type, value->payload.data());
  if (integer.negative) {
    return Bad(std::string(key) + ": expected an integer of 0 or more, found " + std::to_string(int64_t(integer.bits)));
  }
  return integer.bits;
}

Result<double> GgufFile::GetFloat(std::string_view key) const {
  WINNOW_ASSIGN_OR_RETURN(const GgufValue* value, FindValue(key));
  if (!IsFloat(value->type)) return Bad(std::string(key) + ": expected a float, found " + Describe(*value));
  return LoadAnyFloat(value->type, value->payload.data());
}

Result<bool> GgufFile::GetBool(std::string_view key) const {
  WINNOW_ASSIGN_OR_RETURN(const GgufValue* value, FindValue(key));
  if (value->type != GgufType::kBool) return Bad(std::string(key) + ": expected a bool, found " + Describe(*value));
  return value->payload[0] != 0;
}

Result<std::vector<std::string_view>> GgufFile::GetStringArray(std::string_view key) const {
  WINNOW_ASSIGN_OR_RETURN(const GgufValue* value, FindValue(key));
  if (value->type != GgufType::kArray || value->element_type != GgufType::kString) {
    return Bad(std::string(key) + ": expected an array of string, found " + Describe(*value));
  }
  std::vector<std::string_view> strings;
  strings.reserve(value->count);
  const uint8_t* position = value->payload.data();
  for (uint64_t i = 0; i < value->count; ++i) {
    const uint64_t length = Load<uint64_t>(position);
    position += sizeof length;
    strings.emplace_back(reinterpret_cast<const char*>(position), length);
    position += length;
  }
  return strings;
}

Result<std::vector<int64_t>> GgufFile::GetIntArray(std::string_view key) const {
  WINNOW_ASSIGN_OR_RETURN(const GgufValue* value, FindValue(key));
  if (value->type != GgufType::kArray || !IsInteger(value->element_type)) {
    return Bad(std::string(key) + ": expected an array of integers, found " + Describe(*value));
  }
  std::vector<int64_t> integers;
  integers.reserve(value->count);
  const size_t element_bytes = value->count == 0 ? 0 : value->payload.size() / value->count;
  for (uint64_t i = 0; i < value->count; ++i) {
    const AnyInteger integer = LoadAnyInteger(value->element_type, value->payload.data() + i * element_bytes);
    if (!integer.negative && integer.bits > uint64_t(std::numeric_limits<int64_t>::max())) {
      return Bad(std::string(key) + "[" + std::to_string(i) + "]: expected an integer below 2^63, found " +
                 std::to_string(integer.bits));
    }
    integers.push_back(int64_t(integer.bits));
  }
  return integers;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

std::vector<const TensorInfo*> GgufFile::tensors() const {
  std::vector<const TensorInfo*> all;
  for (const GgufTensor& tensor : tensors_) all.push_back(&tensor);
  return all;
}

Result<TensorRows> GgufFile::Rows(const TensorInfo& tensor, std::vector<int64_t> rows) const {
  const GgufTensor* mine = FindTensor(tensor.name);
  WINNOW_CHECK(mine == &tensor);
  return TensorRows{std::as_bytes(std::span(mine->data, size_t(mine->num_bytes))), std::move(rows), {}};
}

void GgufFile::Release(const TensorInfo& tensor) const {
  const GgufTensor* mine = FindTensor(tensor.name);
  WINNOW_CHECK(mine == &tensor);
  file_.DropPages({mine->data, size_t(mine->num_bytes)});
}

Result<const GgufTensor*> GgufFile::GetTensor(std::string_view name) const {
  WINNOW_RETURN_IF_ERROR(Get(name).status());
  return FindTensor(name);
}

}  // namespace winnow
