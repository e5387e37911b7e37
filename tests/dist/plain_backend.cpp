#include "tests/dist/plain_backend.h"

#include <cmath>
#include <cstdlib>
#include <limits>

namespace winnow {
namespace {

class PlainWeight : public Weight {
 public:
  PlainWeight(int64_t rows, int64_t columns) : Weight(DType::kF32, rows, columns), values_(rows * columns) {}
  int64_t bytes() const override { return int64_t(values_.size() * sizeof(float)); }
  float* row(int64_t index) { return values_.data() + index * columns(); }
  const float* row(int64_t index) const { return values_.data() + index * columns(); }

 private:
  std::vector<float> values_;
};

}  // namespace

Result<std::unique_ptr<Weight>> PlainBackend::Pack(const WeightSource& source) {
  WINNOW_CHECK(source.dtype == DType::kF32);
  auto weight = std::make_unique<PlainWeight>(int64_t(source.rows.size()), source.column_end - source.column_begin);
  for (int64_t i = 0; i < weight->rows(); ++i) {
    const std::byte* from = source.data.data() + (source.rows[i] * source.file_columns + source.column_begin) * 4;
    std::memcpy(weight->row(i), from, weight->columns() * 4);
  }
  return std::unique_ptr<Weight>(std::move(weight));
}

std::byte* PlainBackend::DoAllocate(int64_t bytes) {
  return static_cast<std::byte*>(std::calloc(bytes + 1, 1));
}
void PlainBackend::DoFree(std::byte* data, int64_t) {
  std::free(data);
}
void PlainBackend::DoCopyToDevice(const Tensor& to, std::span<const std::byte> from) {
  std::memcpy(to.data(), from.data(), from.size());
}
void PlainBackend::DoCopyToHost(std::span<std::byte> to, const Tensor& from) {
  std::memcpy(to.data(), from.data(), to.size());
}
void PlainBackend::DoFill(const Tensor& to, uint8_t value) {
  std::memset(to.data(), value, to.bytes());
}

void PlainBackend::DoMatMulSegmented(const Tensor& x, const Weight& weight, int64_t segment_columns,
                                     FixedPoint fixed_point, const Tensor& sums) {
  const auto& w = static_cast<const PlainWeight&>(weight);
  const int64_t rows = x.dim(0), n = w.rows(), k = w.columns();
  for (int64_t row = 0; row < rows; ++row) {
    const float* in = x.as<float>() + row * k;
    int64_t* out = sums.as<int64_t>() + row * (n + 1);
    for (int64_t i = 0; i <= n; ++i) out[i] = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t begin = 0; begin < k; begin += segment_columns) {
        float partial = 0;
        for (int64_t c = begin; c < begin + segment_columns; ++c) partial += in[c] * w.row(i)[c];
        if (std::fabs(partial) < fixed_point.limit) {
          out[i] += std::llrint(partial * fixed_point.steps_per_unit);
        } else {
          ++out[n];
        }
      }
    }
  }
}

void PlainBackend::DoAddFixedPoint(const Tensor& sums, FixedPoint fixed_point, const Tensor& residual) {
  const int64_t rows = residual.dim(0), n = residual.dim(1);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t* in = sums.as<int64_t>() + row * (n + 1);
    float* out = residual.as<float>() + row * n;
    for (int64_t i = 0; i < n; ++i) {
      out[i] =
          in[n] != 0 ? std::numeric_limits<float>::quiet_NaN() : out[i] + float(in[i]) / fixed_point.steps_per_unit;
    }
  }
}

}  // namespace winnow
