// Device memory with an owner. Move-only; gives its memory back to the Backend that made it, which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "compute/tensor.h"

namespace winnow {

class Backend;

class Buffer {
 public:
  Buffer() = default;
  Buffer(Backend* backend, std::byte* data, int64_t bytes) : backend_(backend), data_(data), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(backend_, other.backend_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer();

  int64_t bytes() const { return bytes_; }

  // A view of the first bytes as a tensor of this type and shape, which must fit.
  Tensor View(DType dtype, std::initializer_list<int64_t> shape) const {
    Tensor t(data_, dtype, shape);
    WINNOW_CHECK(t.bytes() <= bytes_);
    return t;
  }

 private:
  Backend* backend_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace winnow
