// A view of device memory with a type and a row-major shape. Never owns, never outlives the call it is passed to.
// Nothing above compute/ may read or write what it points to: ops do, and the named copies of Backend.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/check.h"
#include "compute/dtype.h"

namespace winnow {

class Tensor {
 public:
  static constexpr int kMaxRank = 4;

  Tensor() = default;
  Tensor(std::byte* data, DType dtype, std::initializer_list<int64_t> shape) : data_(data), dtype_(dtype) {
    WINNOW_CHECK(shape.size() <= kMaxRank);
    for (int64_t extent : shape) shape_[rank_++] = extent;
  }

  DType dtype() const { return dtype_; }
  int rank() const { return rank_; }
  int64_t dim(int axis) const {
    WINNOW_DCHECK(axis < rank_);
    return shape_[axis];
  }
  int64_t num_elements() const {
    int64_t count = 1;
    for (int axis = 0; axis < rank_; ++axis) count *= shape_[axis];
    return count;
  }
  int64_t bytes() const { return BytesOf(dtype_, num_elements()); }
  bool Is(DType dtype, std::initializer_list<int64_t> shape) const {
    if (dtype != dtype_ || int(shape.size()) != rank_) return false;
    int axis = 0;
    for (int64_t extent : shape) {
      if (shape_[axis++] != extent) return false;
    }
    return true;
  }

  // The sub-tensor at `index` of the first axis.
  Tensor At(int64_t index) const {
    WINNOW_CHECK(rank_ > 0 && index >= 0 && index < shape_[0]);
    Tensor t;
    t.dtype_ = dtype_;
    t.rank_ = rank_ - 1;
    for (int axis = 0; axis < t.rank_; ++axis) t.shape_[axis] = shape_[axis + 1];
    t.data_ = data_ + index * t.bytes();
    return t;
  }
  // Rows [begin, begin + count) of the first axis.
  Tensor Rows(int64_t begin, int64_t count) const {
    WINNOW_CHECK(rank_ > 0 && begin >= 0 && count >= 0 && begin + count <= shape_[0]);
    Tensor t = *this;
    t.shape_[0] = count;
    const int64_t row_bytes = shape_[0] == 0 ? 0 : bytes() / shape_[0];
    t.data_ = data_ + begin * row_bytes;
    return t;
  }
  // The same memory under another type of the same element size (float bits summed as integers).
  Tensor As(DType dtype) const {
    WINNOW_CHECK(BlockElements(dtype) == 1 && BlockBytes(dtype) == BlockBytes(dtype_));
    Tensor t = *this;
    t.dtype_ = dtype;
    return t;
  }

  // For ops and transports only: the address, and typed element access.
  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    WINNOW_DCHECK(int64_t(sizeof(T)) == BlockBytes(dtype_));
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  DType dtype_ = DType::kF32;
  int rank_ = 0;
  std::array<int64_t, kMaxRank> shape_{};
};

}  // namespace winnow
