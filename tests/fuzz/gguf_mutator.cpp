// Changes GGUF files record by record: keys, types, counts, shapes and offsets change, while the rest of the file stays
// one that a reader gets through. Half of the changes are libFuzzer's own, to any byte.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace winnow {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint32_t kStringType = 8, kArrayType = 9;
constexpr std::array<uint64_t, 13> kFixedBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr std::array<uint64_t, 16> kNumbers = {0,
                                               1,
                                               31,
                                               32,
                                               64,
                                               uint64_t(1) << 16,
                                               (uint64_t(1) << 31) - 1,
                                               1ull << 31,
                                               1ull << 32,
                                               1ull << 42,
                                               (1ull << 42) + 1,
                                               (1ull << 62) + 1,
                                               (1ull << 63) - 1,
                                               1ull << 63,
                                               ~31ull,
                                               ~0ull};

struct Key {
  std::string name;
  uint32_t type;
  Bytes payload;
};
struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;
  uint32_t type;
  uint64_t offset;
};
struct File {
  uint32_t version = 3;
  std::vector<Key> keys;
  std::vector<Tensor> tensors;
  Bytes data;
  std::optional<uint64_t> num_keys, num_tensors;
};

class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  // False for what is no GGUF file as far as its records go.
  bool Read(File* file) {
    uint32_t magic = 0;
    uint64_t num_tensors = 0, num_keys = 0;
    if (!Number(&magic) || !Number(&file->version) || !Number(&num_tensors) || !Number(&num_keys)) return false;
    if (num_keys > size_ || num_tensors > size_) return false;
    for (uint64_t i = 0; i < num_keys; ++i) {
      Key key{};
      if (!Text(&key.name) || !Number(&key.type)) return false;
      const size_t begin = at_;
      if (!SkipValue(key.type)) return false;
      key.payload.assign(data_ + begin, data_ + at_);
      file->keys.push_back(std::move(key));
    }
    for (uint64_t i = 0; i < num_tensors; ++i) {
      Tensor tensor{};
      uint32_t num_dimensions = 0;
      if (!Text(&tensor.name) || !Number(&num_dimensions) || num_dimensions > 8) return false;
      tensor.shape.resize(num_dimensions);
      for (uint64_t& dimension : tensor.shape) {
        if (!Number(&dimension)) return false;
      }
      if (!Number(&tensor.type) || !Number(&tensor.offset)) return false;
      file->tensors.push_back(std::move(tensor));
    }
    at_ = std::min(size_, (at_ + 31) / 32 * 32);
    file->data.assign(data_ + at_, data_ + size_);
    return true;
  }

 private:
  template <class T>
  bool Number(T* value) {
    if (size_ - at_ < sizeof(T)) return false;
    std::memcpy(value, data_ + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }
  bool Text(std::string* text) {
    uint64_t length = 0;
    if (!Number(&length) || length > size_ - at_) return false;
    text->assign(reinterpret_cast<const char*>(data_ + at_), length);
    at_ += length;
    return true;
  }
  bool SkipValue(uint32_t type) {
    uint64_t count = 1;
    if (type == kArrayType && (!Number(&type) || !Number(&count) || type == kArrayType)) return false;
    if (type >= kFixedBytes.size() || count > size_) return false;
    if (type == kStringType) {
      std::string text;
      for (uint64_t i = 0; i < count; ++i) {
        if (!Text(&text)) return false;
      }
      return true;
    }
    if (count * kFixedBytes[type] > size_ - at_) return false;
    at_ += count * kFixedBytes[type];
    return true;
  }

  const uint8_t* data_;
  size_t size_, at_ = 0;
};

template <class T>
void Append(Bytes* bytes, const T& value) {
  const auto* begin = reinterpret_cast<const uint8_t*>(&value);
  bytes->insert(bytes->end(), begin, begin + sizeof value);
}

void AppendText(Bytes* bytes, const std::string& text) {
  Append(bytes, uint64_t(text.size()));
  bytes->insert(bytes->end(), text.begin(), text.end());
}

Bytes Write(const File& file) {
  Bytes bytes;
  Append(&bytes, uint32_t(0x46554747));
  Append(&bytes, file.version);
  Append(&bytes, file.num_tensors.value_or(file.tensors.size()));
  Append(&bytes, file.num_keys.value_or(file.keys.size()));
  for (const Key& key : file.keys) {
    AppendText(&bytes, key.name);
    Append(&bytes, key.type);
    bytes.insert(bytes.end(), key.payload.begin(), key.payload.end());
  }
  for (const Tensor& tensor : file.tensors) {
    AppendText(&bytes, tensor.name);
    Append(&bytes, uint32_t(tensor.shape.size()));
    for (const uint64_t dimension : tensor.shape) Append(&bytes, dimension);
    Append(&bytes, tensor.type);
    Append(&bytes, tensor.offset);
  }
  bytes.resize((bytes.size() + 31) / 32 * 32);
  bytes.insert(bytes.end(), file.data.begin(), file.data.end());
  return bytes;
}

class Mutation {
 public:
  explicit Mutation(unsigned seed) : random_(seed) {}

  void Apply(File* file) {
    const size_t kind = Below(12);
    if (kind < 7 && !file->keys.empty()) {
      ChangeKey(kind, file);
    } else if (kind < 11 && !file->tensors.empty()) {
      ChangeTensor(kind, file);
    } else {
      (Below(2) == 0 ? file->num_keys : file->num_tensors) = AnyNumber();
    }
  }

  bool Coin() { return Below(2) == 0; }

 private:
  size_t Below(size_t limit) { return size_t(random_()) % limit; }
  uint64_t AnyNumber() { return kNumbers[Below(kNumbers.size())]; }

  // libFuzzer's changes, which know the dictionary and what comparisons have looked for.
  void ChangeBytes(Bytes* bytes) {
    const size_t size = bytes->size();
    bytes->resize(size + 64);
    bytes->resize(LLVMFuzzerMutate(bytes->data(), size, bytes->size()));
  }
  void ChangeText(std::string* text) {
    Bytes bytes(text->begin(), text->end());
    ChangeBytes(&bytes);
    text->assign(bytes.begin(), bytes.end());
  }

  void ChangeKey(size_t kind, File* file) {
    const size_t i = Below(file->keys.size());
    Key& key = file->keys[i];
    switch (kind) {
      case 0:
        key.type = uint32_t(Below(14));
        break;
      case 1:
        file->keys.erase(file->keys.begin() + long(i));
        break;
      case 2:
        file->keys.push_back(Key(key));
        break;
      case 3:
        ChangeText(&key.name);
        break;
      case 4:  // an integer, the length of a text, or the type and a part of the length of an array
        for (size_t byte = 0; byte < std::min<size_t>(8, key.payload.size()); ++byte) {
          key.payload[byte] = uint8_t(AnyNumber() >> (8 * byte));
        }
        break;
      case 5:
        std::swap(key.payload, file->keys[Below(file->keys.size())].payload);
        break;
      default:
        ChangeBytes(&key.payload);
    }
  }

  void ChangeTensor(size_t kind, File* file) {
    const size_t i = Below(file->tensors.size());
    Tensor& tensor = file->tensors[i];
    switch (kind) {
      case 7:
        tensor.type = uint32_t(Coin() ? Below(32) : AnyNumber());
        break;
      case 8:
        tensor.offset = Coin() ? AnyNumber() : file->tensors[Below(file->tensors.size())].offset;
        break;
      case 9:
        if (tensor.shape.empty() || Below(4) == 0) {
          tensor.shape.push_back(1 + Below(3));
        } else {
          tensor.shape[Below(tensor.shape.size())] = AnyNumber();
        }
        break;
      default:
        if (Coin()) {
          ChangeText(&tensor.name);
        } else {
          file->tensors.erase(file->tensors.begin() + long(i));
        }
    }
  }

  std::minstd_rand random_;
};

}  // namespace
}  // namespace winnow

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  using namespace winnow;
  Mutation mutation(seed);
  File file;
  if (mutation.Coin() || !Reader(data, size).Read(&file)) return LLVMFuzzerMutate(data, size, max_size);
  mutation.Apply(&file);
  const Bytes bytes = Write(file);
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}
