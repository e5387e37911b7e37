#include "tests/support/gguf_writer.h"

#include <cstdio>
#include <fstream>

#include "base/check.h"

namespace winnow {
namespace {

void PadTo(std::vector<uint8_t>* bytes, uint64_t alignment) {
  while (bytes->size() % alignment != 0) bytes->push_back(0);
}

template <class T>
std::vector<uint8_t> ArrayPayload(GgufType element_type, const std::vector<T>& values) {
  std::vector<uint8_t> payload;
  AppendBytes(&payload, uint32_t(element_type));
  AppendBytes(&payload, uint64_t(values.size()));
  for (const T& value : values) AppendBytes(&payload, value);
  return payload;
}

template <class T>
std::vector<uint8_t> BytesOfValue(const T& value) {
  std::vector<uint8_t> bytes;
  AppendBytes(&bytes, value);
  return bytes;
}

}  // namespace

void AppendGgufString(std::vector<uint8_t>* bytes, std::string_view text) {
  AppendBytes(bytes, uint64_t(text.size()));
  bytes->insert(bytes->end(), text.begin(), text.end());
}

void GgufWriter::AddRaw(std::string_view key, uint32_t type, const std::vector<uint8_t>& payload) {
  AppendGgufString(&metadata_, key);
  AppendBytes(&metadata_, type);
  metadata_.insert(metadata_.end(), payload.begin(), payload.end());
  ++num_added_keys_;
}

void GgufWriter::AddUint32(std::string_view key, uint32_t value) {
  AddRaw(key, uint32_t(GgufType::kUint32), BytesOfValue(value));
}

void GgufWriter::AddFloat32(std::string_view key, float value) {
  AddRaw(key, uint32_t(GgufType::kFloat32), BytesOfValue(value));
}

void GgufWriter::AddBool(std::string_view key, bool value) {
  AddRaw(key, uint32_t(GgufType::kBool), {uint8_t(value ? 1 : 0)});
}

void GgufWriter::AddString(std::string_view key, std::string_view value) {
  std::vector<uint8_t> payload;
  AppendGgufString(&payload, value);
  AddRaw(key, uint32_t(GgufType::kString), payload);
}

void GgufWriter::AddStringArray(std::string_view key, const std::vector<std::string>& values) {
  std::vector<uint8_t> payload;
  AppendBytes(&payload, uint32_t(GgufType::kString));
  AppendBytes(&payload, uint64_t(values.size()));
  for (const std::string& value : values) AppendGgufString(&payload, value);
  AddRaw(key, uint32_t(GgufType::kArray), payload);
}

void GgufWriter::AddInt32Array(std::string_view key, const std::vector<int32_t>& values) {
  AddRaw(key, uint32_t(GgufType::kArray), ArrayPayload(GgufType::kInt32, values));
}

void GgufWriter::AddFloat32Array(std::string_view key, const std::vector<float>& values) {
  AddRaw(key, uint32_t(GgufType::kArray), ArrayPayload(GgufType::kFloat32, values));
}

void GgufWriter::AddTensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                           std::vector<uint8_t> bytes) {
  int64_t num_elements = 1;
  for (const int64_t size : shape) num_elements *= size;
  WINNOW_CHECK(int64_t(bytes.size()) == BytesOf(dtype, num_elements));
  AddRawTensor(name, GetDTypeInfo(dtype).gguf_type, {shape.begin(), shape.end()}, std::move(bytes));
}

void GgufWriter::AddFloatTensor(std::string_view name, const std::vector<int64_t>& shape,
                                const std::vector<float>& values) {
  std::vector<uint8_t> bytes;
  bytes.reserve(values.size() * sizeof(float));
  for (const float value : values) AppendBytes(&bytes, value);
  AddTensor(name, DType::kF32, shape, std::move(bytes));
}

void GgufWriter::AddRawTensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& shape,
                              std::vector<uint8_t> bytes, std::optional<uint64_t> offset) {
  tensors_.push_back({std::string(name), type, shape, std::move(bytes), offset});
}

std::vector<uint8_t> GgufWriter::Build() const {
  std::vector<uint8_t> file;
  AppendBytes(&file, magic);
  AppendBytes(&file, version);
  AppendBytes(&file, num_tensors.value_or(tensors_.size()));
  AppendBytes(&file, num_keys.value_or(num_added_keys_));
  file.insert(file.end(), metadata_.begin(), metadata_.end());

  std::vector<uint8_t> data;
  for (const Tensor& tensor : tensors_) {
    PadTo(&data, alignment);
    AppendGgufString(&file, tensor.name);
    AppendBytes(&file, uint32_t(tensor.shape.size()));
    for (const uint64_t size : tensor.shape) AppendBytes(&file, size);
    AppendBytes(&file, tensor.type);
    AppendBytes(&file, tensor.offset.value_or(data.size()));
    data.insert(data.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  if (!tensors_.empty()) PadTo(&file, alignment);
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

void GgufWriter::WriteTo(const std::string& path) const {
  const std::vector<uint8_t> bytes = Build();
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  file.close();
  WINNOW_CHECK(file.good());
}

}  // namespace winnow
