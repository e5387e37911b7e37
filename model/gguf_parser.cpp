#include "model/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "model/gguf_type_text.h"

namespace winnow {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are read in place as little-endian");

constexpr uint32_t kMagic = 0x46554747;                            // "GGUF"
constexpr uint64_t kMinKeyRecordBytes = 8 + 1 + 4 + 1;             // length, one character, type, one byte
constexpr uint64_t kMinTensorRecordBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name, dimensions, one of them, type, offset

// 0 for strings and arrays, whose size is not fixed.
uint64_t FixedBytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

}  // namespace

Result<GgufFile> GgufParser::Parse(GgufFile file) {
  GgufParser parser(std::move(file));
  WINNOW_RETURN_IF_ERROR(parser.ParseAll());
  return std::move(parser.file_);
}

Status GgufParser::ParseAll() {
  WINNOW_RETURN_IF_ERROR(ParseHeader());
  WINNOW_RETURN_IF_ERROR(ParseMetadata());
  WINNOW_RETURN_IF_ERROR(ParseAlignment());
  WINNOW_RETURN_IF_ERROR(ParseTensorTable());
  return PlaceTensors();
}

Status GgufParser::Truncated(const std::string& what, uint64_t needed_bytes) const {
  return file_.Bad("truncated at " + what + ": expected " + std::to_string(needed_bytes) + " bytes at offset " +
                   std::to_string(position_) + ", found " + std::to_string(remaining()));
}

template <class T>
Status GgufParser::Read(const std::string& what, T* value) {
  if (remaining() < sizeof(T)) return Truncated(what, sizeof(T));
  std::memcpy(value, bytes_.data() + position_, sizeof(T));
  position_ += sizeof(T);
  return OkStatus();
}

Status GgufParser::ReadType(const std::string& what, GgufType* type) {
  uint32_t number = 0;
  WINNOW_RETURN_IF_ERROR(Read(what + ": type", &number));
  if (number > uint32_t(GgufType::kFloat64)) {
    return file_.Bad(what + ": expected a value type of 0 to 12, found " + std::to_string(number));
  }
  *type = GgufType(number);
  return OkStatus();
}

Status GgufParser::ReadName(const std::string& what, uint64_t max_bytes, std::string* name) {
  uint64_t length = 0;
  WINNOW_RETURN_IF_ERROR(Read(what + ": length", &length));
  if (length == 0 || length > max_bytes) {
    return file_.Bad(what + ": expected a length of 1 to " + std::to_string(max_bytes) + ", found " +
                     std::to_string(length));
  }
  if (remaining() < length) return Truncated(what, length);
  name->assign(reinterpret_cast<const char*>(bytes_.data() + position_), length);
  for (const char character : *name) {
    if (character < 0x21 || character > 0x7e) {
      return file_.Bad(what + ": expected printable ASCII, found byte " + std::to_string(uint8_t(character)));
    }
  }
  position_ += length;
  return OkStatus();
}

Status GgufParser::ParseHeader() {
  uint32_t magic = 0;
  WINNOW_RETURN_IF_ERROR(Read("magic", &magic));
  if (magic != kMagic) {
    return file_.Bad("not a GGUF file: expected magic " + std::to_string(kMagic) + " (\"GGUF\"), found " +
                     std::to_string(magic));
  }
  WINNOW_RETURN_IF_ERROR(Read("version", &file_.version_));
  const uint32_t version = file_.version_;
  const uint32_t swapped = __builtin_bswap32(version);
  if (swapped >= 1 && swapped <= 3) {
    return file_.Bad("expected a little-endian file, found a big-endian one (version " + std::to_string(swapped) + ")");
  }
  if (version < 2 || version > 3) {
    return file_.Bad("expected GGUF version 2 or 3, found " + std::to_string(version));
  }
  WINNOW_RETURN_IF_ERROR(Read("number of tensors", &num_tensors_));
  WINNOW_RETURN_IF_ERROR(Read("number of metadata keys", &num_keys_));
  if (num_keys_ > remaining() / kMinKeyRecordBytes) {
    return file_.Bad("expected at most " + std::to_string(remaining() / kMinKeyRecordBytes) +
                     " metadata keys in the bytes left, found " + std::to_string(num_keys_));
  }
  return OkStatus();
}

Status GgufParser::ParseMetadata() {
  for (uint64_t i = 0; i < num_keys_; ++i) {
    std::string key;
    WINNOW_RETURN_IF_ERROR(ReadName("metadata key " + std::to_string(i), kMaxKeyBytes, &key));
    GgufType type;
    WINNOW_RETURN_IF_ERROR(ReadType(key, &type));
    GgufValue value{};
    WINNOW_RETURN_IF_ERROR(ParseValue(key, type, &value));
    if (!file_.metadata_.emplace(key, value).second) {
      return file_.Bad("expected every metadata key once, found " + key + " twice");
    }
  }
  return OkStatus();
}

Status GgufParser::ParseValue(const std::string& key, GgufType type, GgufValue* value) {
  *value = {type, type, 1, {}};
  if (type == GgufType::kArray) {
    WINNOW_RETURN_IF_ERROR(ReadType(key + ": element", &value->element_type));
    if (value->element_type == GgufType::kArray) {
      return file_.Bad(key + ": expected an array of plain values, found an array of arrays");
    }
    WINNOW_RETURN_IF_ERROR(Read(key + ": array length", &value->count));
  }
  const uint64_t start = position_;
  WINNOW_RETURN_IF_ERROR(SkipElements(key, value->element_type, value->count));
  value->payload = bytes_.subspan(start, position_ - start);
  return OkStatus();
}

Status GgufParser::SkipElements(const std::string& key, GgufType type, uint64_t count) {
  const uint64_t min_bytes = type == GgufType::kString ? sizeof(uint64_t) : FixedBytes(type);
  if (count > remaining() / min_bytes) {
    return file_.Bad("truncated at " + key + ": expected " + std::to_string(count) + " elements of " +
                     std::string(Name(type)) + " at offset " + std::to_string(position_) + ", found " +
                     std::to_string(remaining()) + " bytes");
  }
  if (type == GgufType::kString) {
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t length = 0;
      WINNOW_RETURN_IF_ERROR(Read(key + ": string length", &length));
      if (remaining() < length) return Truncated(key + ": string " + std::to_string(i), length);
      position_ += length;
    }
    return OkStatus();
  }
  if (type == GgufType::kBool) {
    for (uint64_t i = 0; i < count; ++i) {
      if (const uint8_t byte = bytes_[position_ + i]; byte > 1) {
        return file_.Bad(key + ": expected a bool of 0 or 1, found " + std::to_string(byte));
      }
    }
  }
  position_ += count * min_bytes;
  return OkStatus();
}

Status GgufParser::ParseAlignment() {
  constexpr std::string_view kKey = "general.alignment";
  if (!file_.Has(kKey)) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(alignment_, file_.GetUint(kKey));
  if (!std::has_single_bit(alignment_) || alignment_ < 8 || alignment_ > kMaxAlignment) {
    return file_.Bad("general.alignment: expected a power of two from 8 to " + std::to_string(kMaxAlignment) +
                     ", found " + std::to_string(alignment_));
  }
  return OkStatus();
}

Status GgufParser::ParseTensorTable() {
  if (num_tensors_ > remaining() / kMinTensorRecordBytes) {
    return file_.Bad("expected at most " + std::to_string(remaining() / kMinTensorRecordBytes) +
                     " tensors in the bytes left, found " + std::to_string(num_tensors_));
  }
  file_.tensors_.reserve(num_tensors_);
  offsets_.reserve(num_tensors_);
  for (uint64_t i = 0; i < num_tensors_; ++i) WINNOW_RETURN_IF_ERROR(ParseTensor(i));
  return OkStatus();
}

Status GgufParser::ParseTensor(uint64_t index) {
  GgufTensor tensor{};
  WINNOW_RETURN_IF_ERROR(ReadName("tensor " + std::to_string(index) + ": name", kMaxTensorNameBytes, &tensor.name));
  const std::string what = "tensor " + tensor.name;
  uint32_t num_dimensions = 0;
  WINNOW_RETURN_IF_ERROR(Read(what + ": number of dimensions", &num_dimensions));
  if (num_dimensions < 1 || num_dimensions > 4) {
    return file_.Bad(what + ": expected 1 to 4 dimensions, found " + std::to_string(num_dimensions));
  }
  int64_t num_elements = 1;
  for (uint32_t i = 0; i < num_dimensions; ++i) {
    uint64_t size = 0;
    WINNOW_RETURN_IF_ERROR(Read(what + ": dimension " + std::to_string(i), &size));
    if (size == 0 || size > uint64_t(std::numeric_limits<int64_t>::max()) ||
        __builtin_mul_overflow(num_elements, int64_t(size), &num_elements)) {
      return file_.Bad(what + ": expected dimensions of 1 or more with a product below 2^63, found dimension " +
                       std::to_string(i) + " = " + std::to_string(size));
    }
    tensor.shape.push_back(int64_t(size));
  }
  uint32_t type = 0;
  WINNOW_RETURN_IF_ERROR(Read(what + ": type", &type));
  const std::optional<DType> dtype = DTypeFromGguf(type);
  if (!dtype) {
    return file_.Bad(what + ": type " + GgufTypeText(type) + " is not supported; supported: " + SupportedTypesText());
  }
  tensor.dtype = *dtype;
  if (tensor.shape[0] % BlockElements(*dtype) != 0) {
    return file_.Bad(what + ": expected rows of a multiple of " + std::to_string(BlockElements(*dtype)) + " for " +
                     std::string(Name(*dtype)) + ", found shape " + ShapeText(tensor.shape));
  }
  if (__builtin_mul_overflow(num_elements / BlockElements(*dtype), BlockBytes(*dtype), &tensor.num_bytes)) {
    return file_.Bad(what + ": expected a size below 2^63 bytes, found shape " + ShapeText(tensor.shape));
  }
  uint64_t offset = 0;
  WINNOW_RETURN_IF_ERROR(Read(what + ": offset", &offset));
  if (offset % alignment_ != 0) {
    return file_.Bad(what + ": expected an offset that is a multiple of " + std::to_string(alignment_) + ", found " +
                     std::to_string(offset));
  }
  if (!file_.tensor_index_.emplace(tensor.name, index).second) {
    return file_.Bad("expected every tensor once, found " + tensor.name + " twice");
  }
  offsets_.push_back(offset);
  file_.tensors_.push_back(std::move(tensor));
  return OkStatus();
}

Status GgufParser::PlaceTensors() {
  if (file_.tensors_.empty()) return OkStatus();
  const uint64_t padding = (alignment_ - position_ % alignment_) % alignment_;
  if (remaining() < padding) return Truncated("the padding before the tensor data", padding);
  const std::span<const uint8_t> data = bytes_.subspan(position_ + padding);

  std::vector<size_t> by_offset(offsets_.size());
  std::iota(by_offset.begin(), by_offset.end(), size_t(0));
  std::sort(by_offset.begin(), by_offset.end(), [&](size_t a, size_t b) { return offsets_[a] < offsets_[b]; });
  const GgufTensor* previous = nullptr;
  uint64_t previous_end = 0;
  for (const size_t i : by_offset) {
    GgufTensor& tensor = file_.tensors_[i];
    if (offsets_[i] > data.size() || uint64_t(tensor.num_bytes) > data.size() - offsets_[i]) {
      return file_.Bad("tensor " + tensor.name + ": expected " + std::to_string(tensor.num_bytes) +
                       " bytes at data offset " + std::to_string(offsets_[i]) + ", found a data section of " +
                       std::to_string(data.size()) + " bytes");
    }
    if (offsets_[i] < previous_end) {
      return file_.Bad("tensor " + tensor.name + ": expected data of its own, found an overlap with tensor " +
                       previous->name);
    }
    tensor.data = data.data() + offsets_[i];
    previous = &tensor;
    previous_end = offsets_[i] + uint64_t(tensor.num_bytes);
  }
  return OkStatus();
}

}  // namespace winnow
