// The fast CPU backend: owns the thread pool and scratch memory, splits every op over the threads and calls the kernels
// of the chosen instruction set. How work is split never changes a result's bits. Engine thread only.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "compute/backend.h"
#include "compute/cpu/kernels.h"
#include "compute/cpu/memory.h"

namespace winnow::cpu {

class CpuBackend final : public Backend {
 public:
  CpuBackend(int num_threads, const CpuKernels& kernels);

  std::string name() const override { return "cpu"; }
  std::string kernels() const override { return kernels_.name; }
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
  // x [rows, K] in int8, in activations_.
  const ActivationBlock* QuantiseRows(const Tensor& x);
  // At least this much scratch; ends the program if there is none, since ops cannot fail.
  static float* Reserve(Memory& memory, int64_t bytes);

  const CpuKernels& kernels_;
  ThreadPool pool_;
  Memory activations_;                // [rows][K / 32] ActivationBlock
  std::vector<Memory> partials_;      // of attention, one per thread; [0] for all threads when blocks are dealt
  std::vector<AttentionTile> tiles_;  // of the running Attention
};

}  // namespace winnow::cpu
