#include <cstdlib>
#include <cstring>
#include <new>

#include "base/check.h"
#include "compute/reference/reference_backend.h"
#include "compute/weight_blocks.h"

namespace winnow {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend(ReferenceArithmetic arithmetic) {
  return std::make_unique<ReferenceBackend>(arithmetic);
}

std::byte* ReferenceBackend::DoAllocate(int64_t bytes) {
  const size_t rounded = size_t(bytes / kAlignment + 1) * kAlignment;
  void* data = std::aligned_alloc(kAlignment, rounded);
  if (data != nullptr) std::memset(data, 0, rounded);
  return static_cast<std::byte*>(data);
}

void ReferenceBackend::DoFree(std::byte* data, int64_t) {
  std::free(data);
}

void ReferenceBackend::DoCopyToDevice(const Tensor& to, std::span<const std::byte> from) {
  std::memcpy(to.data(), from.data(), from.size());
}

void ReferenceBackend::DoCopyToHost(std::span<std::byte> to, const Tensor& from) {
  std::memcpy(to.data(), from.data(), to.size());
}

void ReferenceBackend::DoFill(const Tensor& to, uint8_t value) {
  if (to.bytes() > 0) std::memset(to.data(), value, size_t(to.bytes()));
}

Result<std::unique_ptr<Weight>> ReferenceBackend::Pack(const WeightSource& source) {
  const int64_t columns = source.column_end - source.column_begin;
  const int64_t row_bytes = BytesOf(source.dtype, source.file_columns);
  WINNOW_CHECK(source.column_begin >= 0 && columns >= 0 && source.column_end <= source.file_columns);
  WINNOW_CHECK(source.column_begin % 32 == 0 && columns % 32 == 0);
  const bool floats =
      arithmetic_ == ReferenceArithmetic::kFloat || ArithmeticOf(source.dtype) == WeightArithmetic::kFloat;
  const int64_t rows = int64_t(source.rows.size());
  auto weight = std::make_unique<ReferenceWeight>(source.dtype, rows, columns);
  try {
    if (floats) {
      weight->values.resize(size_t(rows * columns));
    } else {
      weight->q.resize(size_t(rows * columns));
      weight->scale.resize(size_t(rows * columns / 16));
      weight->min.resize(size_t(rows * columns / 16));
    }
  } catch (const std::bad_alloc&) {
    return OutOfMemory("a weight of " + std::to_string(rows) + " x " + std::to_string(columns) +
                       " could not be allocated on " + name());
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t file_row = source.rows[size_t(r)];
    WINNOW_CHECK(file_row >= 0 && (file_row + 1) * row_bytes <= int64_t(source.data.size()));
    const std::byte* row = source.data.data() + file_row * row_bytes;
    if (floats) {
      DequantiseRow(source.dtype, row, source.column_begin, columns, &weight->values[size_t(r * columns)]);
      continue;
    }
    for (int64_t b = 0; b < columns / 32; ++b) {
      WeightBlock32 block;
      DecodeBlock32(source.dtype, row, source.column_begin / 32 + b, &block);
      std::memcpy(&weight->q[size_t(r * columns + 32 * b)], block.q, 32);
      std::memcpy(&weight->scale[size_t(r * columns / 16 + 2 * b)], block.scale, sizeof block.scale);
      std::memcpy(&weight->min[size_t(r * columns / 16 + 2 * b)], block.min, sizeof block.min);
    }
  }
  return std::unique_ptr<Weight>(std::move(weight));
}

}  // namespace winnow
