// The oracle: every op as plain loops that follow the arithmetic contract word by word, in one thread. Used by tests
// and by `--backend reference`; never optimised, so that it can be read against the contract. Engine thread only.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compute/backend.h"

namespace winnow {

// Packed by ReferenceBackend. Either `values` or the other three are filled (see HoldsFloats).
class ReferenceWeight final : public Weight {
 public:
  ReferenceWeight(DType dtype, int64_t rows, int64_t columns) : Weight(dtype, rows, columns) {}

  // F32, F16, BF16 in both arithmetics; every format, de-quantised, in kFloat.
  bool HoldsFloats() const { return !values.empty(); }
  int64_t bytes() const override {
    return int64_t(values.size() * sizeof(float) + q.size() + (scale.size() + min.size()) * sizeof(float));
  }

  std::vector<float> values;      // [rows][columns]
  std::vector<int8_t> q;          // [rows][columns]
  std::vector<float> scale, min;  // [rows][columns / 16]
};

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(ReferenceArithmetic arithmetic) : arithmetic_(arithmetic) {}

  std::string name() const override { return "reference"; }
  std::string kernels() const override { return arithmetic_ == ReferenceArithmetic::kFloat ? "float" : "quantised"; }
  void BeginTransfer(const Tensor&) override {}
  void EndTransfer(const Tensor&) override {}
  Result<std::unique_ptr<Weight>> Pack(const WeightSource& source) override;

 protected:
  std::byte* DoAllocate(int64_t bytes) override;
  void DoFree(std::byte* data, int64_t bytes) override;
  void DoCopyToDevice(const Tensor& to, std::span<const std::byte> from) override;
  void DoCopyToHost(std::span<std::byte> to, const Tensor& from) override;
  void DoFill(const Tensor& to, uint8_t value) override;
  void DoEmbed(const Weight& table, int64_t first_row, const Tensor& ids, const Tensor& out) override;
  void DoRmsNorm(const Tensor& x, const Tensor& gain, float epsilon, const Tensor& out) override;
  void DoMatMul(const Tensor& x, std::span<const MatMulTarget> targets) override;
  void DoMatMulSegmented(const Tensor& x, const Weight& weight, int64_t segment_columns, FixedPoint fixed_point,
                         const Tensor& sums) override;
  void DoAddFixedPoint(const Tensor& sums, FixedPoint fixed_point, const Tensor& residual) override;
  void DoAdd(const Tensor& x, const Tensor& residual) override;
  void DoAddBias(const Tensor& bias, const Tensor& x) override;
  void DoRopeAppend(const RopeAppendArgs& args) override;
  void DoAttention(const AttentionArgs& args) override;
  void DoSiluMul(const Tensor& gate, const Tensor& up) override;
  void DoFlagNotFinite(const Tensor& x, const Tensor& flags) override;
  void DoGatherRows(const Tensor& x, const Tensor& indices, const Tensor& out) override;
  void DoZeroRows(const Tensor& x, const Tensor& indices) override;
  void DoCompact(const CompactArgs& args) override;
  void DoReadSlots(const SlotArgs& args) override;
  void DoWriteSlots(const SlotArgs& args) override;

 private:
  const ReferenceArithmetic arithmetic_;
};

}  // namespace winnow
