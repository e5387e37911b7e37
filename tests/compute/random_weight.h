// Random matrices in every weight format, for tests: random bytes with scales of an ordinary size.
#pragma once

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "compute/backend.h"
#include "compute/weight_blocks.h"
#include "tests/compute/device_tensors.h"

namespace winnow {

inline const std::vector<DType>& WeightFormats() {
  static const std::vector<DType> formats = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0,   DType::kQ4_1,
                                             DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ2_K,   DType::kQ3_K,
                                             DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS};
  return formats;
}

// Where the half-precision scales lie in a block.
inline std::vector<int64_t> HalfOffsets(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108};
    case DType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

class RandomMatrix {
 public:
  RandomMatrix(DType dtype, int64_t rows, int64_t columns, uint64_t seed)
      : dtype_(dtype), rows_(rows), columns_(columns) {
    bytes_.resize(size_t(rows * BytesOf(dtype, columns)));
    if (ArithmeticOf(dtype) == WeightArithmetic::kFloat) {
      FillWithFloats(seed);
      return;
    }
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = std::byte(RandomBits(seed, int64_t(i)) & 255);
    for (int64_t block = 0; block < int64_t(bytes_.size()) / BlockBytes(dtype); ++block) {
      for (int64_t offset : HalfOffsets(dtype)) {
        // A half of either sign between 2^-9 and 2^-5.
        const uint32_t random = RandomBits(seed + 1, block * 4 + offset);
        const uint16_t half = uint16_t((random & 0x83ff) | (6 + (random >> 16) % 4) << 10);
        std::memcpy(&bytes_[size_t(block * BlockBytes(dtype) + offset)], &half, 2);
      }
    }
  }

  DType dtype() const { return dtype_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  WeightSource Source() const {
    WeightSource source{dtype_, bytes_, columns_, std::vector<int64_t>(size_t(rows_)), 0, columns_};
    std::iota(source.rows.begin(), source.rows.end(), 0);
    return source;
  }
  std::unique_ptr<Weight> Pack(Backend& backend) const { return std::move(backend.Pack(Source()).value()); }
  // Columns [begin, end) as a matrix of their own, as a rank would hold them.
  std::unique_ptr<Weight> PackColumns(Backend& backend, int64_t begin, int64_t end) const {
    WeightSource source = Source();
    source.column_begin = begin;
    source.column_end = end;
    return std::move(backend.Pack(source).value());
  }
  std::vector<float> Row(int64_t row) const {
    std::vector<float> floats(static_cast<size_t>(columns_));
    DequantiseRow(dtype_, bytes_.data() + row * BytesOf(dtype_, columns_), 0, columns_, floats.data());
    return floats;
  }

 private:
  void FillWithFloats(uint64_t seed) {
    const std::vector<float> values = RandomFloats(seed, rows_ * columns_, 0.1f);
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype_ == DType::kF32) {
        std::memcpy(&bytes_[4 * i], &values[i], 4);
      } else {  // any 16 bits with a small exponent are an ordinary half
        uint16_t bits = FloatToBFloat16(values[i]);
        if (dtype_ == DType::kF16) bits = uint16_t((bits & 0x83ff) | 8 << 10);
        std::memcpy(&bytes_[2 * i], &bits, 2);
      }
    }
  }

  DType dtype_;
  int64_t rows_, columns_;
  std::vector<std::byte> bytes_;
};

}  // namespace winnow
