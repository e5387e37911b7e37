// A backend with just what the collectives need: heap memory, F32 weights, the segmented product and fixed-point adds,
// written as plain loops. It also counts transfers, so that tests see them bracketed. Every other op ends the program.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "compute/backend.h"

namespace winnow {

class PlainBackend : public Backend {
 public:
  std::string name() const override { return "plain"; }
  std::string kernels() const override { return "plain"; }

  int num_open_transfers() const { return num_begun_ - num_ended_; }
  int num_transfers() const { return num_ended_; }

  void BeginTransfer(const Tensor&) override { ++num_begun_; }
  void EndTransfer(const Tensor&) override { ++num_ended_; }
  Result<std::unique_ptr<Weight>> Pack(const WeightSource& source) override;

 protected:
  std::byte* DoAllocate(int64_t bytes) override;
  void DoFree(std::byte* data, int64_t bytes) override;
  void DoCopyToDevice(const Tensor& to, std::span<const std::byte> from) override;
  void DoCopyToHost(std::span<std::byte> to, const Tensor& from) override;
  void DoFill(const Tensor& to, uint8_t value) override;
  void DoMatMulSegmented(const Tensor& x, const Weight& weight, int64_t segment_columns, FixedPoint fixed_point,
                         const Tensor& sums) override;
  void DoAddFixedPoint(const Tensor& sums, FixedPoint fixed_point, const Tensor& residual) override;

  void DoEmbed(const Weight&, int64_t, const Tensor&, const Tensor&) override { Missing(); }
  void DoRmsNorm(const Tensor&, const Tensor&, float, const Tensor&) override { Missing(); }
  void DoMatMul(const Tensor&, std::span<const MatMulTarget>) override { Missing(); }
  void DoAdd(const Tensor&, const Tensor&) override { Missing(); }
  void DoRopeAppend(const RopeAppendArgs&) override { Missing(); }
  void DoAttention(const AttentionArgs&) override { Missing(); }
  void DoSiluMul(const Tensor&, const Tensor&) override { Missing(); }
  void DoGatherRows(const Tensor&, const Tensor&, const Tensor&) override { Missing(); }
  void DoCompact(const CompactArgs&) override { Missing(); }

 private:
  static void Missing() { WINNOW_CHECK(!"PlainBackend has no such op"); }
  int num_begun_ = 0;
  int num_ended_ = 0;
};

// A buffer that holds `values`, as a device tensor of this shape.
template <class T>
Buffer ToDevice(Backend& backend, const std::vector<T>& values) {
  Buffer buffer = backend.Allocate(int64_t(values.size() * sizeof(T))).value();
  const DType dtype = sizeof(T) == 8 ? DType::kI64 : DType::kI32;  // same size, the bytes are what is copied
  backend.CopyToDevice(buffer.View(dtype, {int64_t(values.size())}), std::as_bytes(std::span(values)));
  return buffer;
}

template <class T>
std::vector<T> ToHost(Backend& backend, const Tensor& tensor) {
  std::vector<T> values(tensor.num_elements());
  backend.CopyToHost(std::as_writable_bytes(std::span(values)), tensor);
  return values;
}

}  // namespace winnow
