#include "model/dummy_weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/philox.h"
#include "model/model_tensors.h"

namespace winnow {
namespace {

// Numbers made at a time: 32 blocks of the generator in step.
constexpr int64_t kGroup = 128, kLanes = kGroup / 4;

uint64_t HashOf(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001b3;
  return hash;
}

// u of elements [first, first + kGroup), first a multiple of 4. Philox (base/philox.h) of many counters in step,
// written so that compilers take the lanes as vectors.
void UnitNumbers(uint64_t key, uint64_t first, std::array<float, kGroup>* u) {
  std::array<uint32_t, kLanes> c0, c1, c2, c3;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t block = first / 4 + uint64_t(lane);
    c0[lane] = uint32_t(RandomPurpose::kDummyWeights), c1[lane] = uint32_t(block);
    c2[lane] = uint32_t(block >> 32), c3[lane] = 0;
  }
  uint32_t key_low = uint32_t(key), key_high = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t product0 = uint64_t(0xD2511F53u) * c0[lane], product1 = uint64_t(0xCD9E8D57u) * c2[lane];
      c0[lane] = uint32_t(product1 >> 32) ^ c1[lane] ^ key_low, c1[lane] = uint32_t(product1);
      c2[lane] = uint32_t(product0 >> 32) ^ c3[lane] ^ key_high, c3[lane] = uint32_t(product0);
    }
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    float* to = u->data() + 4 * lane;
    to[0] = 2 * OpenUnitFloat(c0[lane]) - 1, to[1] = 2 * OpenUnitFloat(c1[lane]) - 1;
    to[2] = 2 * OpenUnitFloat(c2[lane]) - 1, to[3] = 2 * OpenUnitFloat(c3[lane]) - 1;
  }
}

// value = offset + scale * u.
struct Line {
  float offset, scale;
};
Line LineOf(const TensorInfo& tensor) {
  if (tensor.name.ends_with(".bias")) return {0, 0.1f};
  if (tensor.shape.size() == 1) return {1, 0.1f};
  if (tensor.name == "token_embd.weight") return {0, 1};
  return {0, float(std::sqrt(3.0 / double(tensor.shape[0])))};
}

// To nearest even, for |value| below 65504.
uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000u);
  constexpr uint32_t kSmallestNormal = 113u << 23;  // 2^-14
  if (magnitude < kSmallestNormal) return uint16_t(sign | uint32_t(std::nearbyint(std::abs(value) * 0x1p24f)));
  return uint16_t(sign | ((magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13));
}

uint16_t FiniteToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// The first `bytes` of kGroup elements of the dtype.
void Store(DType dtype, const std::array<float, kGroup>& values, int64_t bytes, std::byte* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, values.data(), size_t(bytes));
    return;
  }
  std::array<uint16_t, kGroup> rounded;
  if (dtype == DType::kBF16) {
    for (int64_t i = 0; i < kGroup; ++i) rounded[size_t(i)] = FiniteToBFloat16(values[size_t(i)]);
  } else {
    for (int64_t i = 0; i < kGroup; ++i) rounded[size_t(i)] = FloatToHalf(values[size_t(i)]);
  }
  std::memcpy(to, rounded.data(), size_t(bytes));
}

}  // namespace

DummyWeights::DummyWeights(const ModelConfig& config, DType dtype, std::string path)
    : dtype_(dtype), path_(std::move(path)) {
  WINNOW_CHECK(dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16);
  for (NamedShape& tensor : TensorsOf(config)) Add(tensor.name, std::move(tensor.shape));
}

void DummyWeights::Add(const std::string& name, std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  WINNOW_CHECK(shape[0] % 4 == 0);
  order_.push_back(name);
  tensors_.emplace(name, TensorInfo{name, dtype_, std::move(shape), BytesOf(dtype_, count)});
}

const TensorInfo* DummyWeights::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<const TensorInfo*> DummyWeights::tensors() const {
  std::vector<const TensorInfo*> all;
  for (const std::string& name : order_) all.push_back(&tensors_.at(name));
  return all;
}

Result<TensorRows> DummyWeights::Rows(const TensorInfo& tensor, std::vector<int64_t> rows) const {
  WINNOW_CHECK(Find(tensor.name) == &tensor);
  const int64_t columns = tensor.shape[0], row_bytes = BytesOf(dtype_, columns);
  const int64_t num_rows = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  TensorRows out;
  try {
    out.made.resize(rows.size() * size_t(row_bytes));
  } catch (const std::bad_alloc&) {
    return OutOfMemory("tensor " + tensor.name + ": " + std::to_string(int64_t(rows.size()) * row_bytes) +
                       " bytes for its made-up rows could not be allocated");
  }
  const uint64_t key = HashOf(tensor.name);
  const Line line = LineOf(tensor);
  std::byte* to = out.made.data();
  std::array<float, kGroup> values;
  for (size_t i = 0; i < rows.size(); ++i) {
    WINNOW_CHECK(rows[i] >= 0 && rows[i] < num_rows);
    const uint64_t first = uint64_t(rows[i]) * uint64_t(columns);
    for (int64_t column = 0; column < columns; column += kGroup) {
      UnitNumbers(key, first + uint64_t(column), &values);
      for (float& value : values) value = line.offset + line.scale * value;
      const int64_t bytes = BytesOf(dtype_, std::min(kGroup, columns - column));
      Store(dtype_, values, bytes, to);
      to += bytes;
    }
    rows[i] = int64_t(i);
  }
  out.data = out.made;
  out.rows = std::move(rows);
  return out;
}

}  // namespace winnow
