// Wraps a CPU backend and makes every buffer unreadable outside an op, copy, fill or transfer, as memory of a GPU would
// be: code above compute/ that touches a tensor's memory dies at once. Each buffer has pages of its own with an
// inaccessible page on both sides and ends where its last page ends (to 64 bytes), so running over the end dies too.
// Inputs of an op are read-only while it runs. Weights are the inner backend's. Engine thread only.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "compute/backend.h"

namespace winnow {

class GuardBackend final : public Backend {
 public:
  explicit GuardBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}
  ~GuardBackend() override;

  std::string name() const override { return "guard(" + inner_->name() + ")"; }
  std::string kernels() const override { return inner_->kernels(); }
  // Readable and writable until EndTransfer.
  void BeginTransfer(const Tensor& tensor) override;
  void EndTransfer(const Tensor& tensor) override;
  Result<std::unique_ptr<Weight>> Pack(const WeightSource& source) override { return inner_->Pack(source); }

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
  // The pages of one buffer, guard pages not counted.
  struct Region {
    std::byte* pages;
    int64_t page_bytes;
    int64_t data_bytes;
    int readers = 0;
    int writers = 0;
  };
  enum class Access { kRead, kWrite };
  class Scope;

  void Open(const Tensor& tensor, Access access);
  void Close(const Tensor& tensor, Access access);
  Region& Find(const Tensor& tensor);
  static void Protect(const Region& region);

  std::unique_ptr<Backend> inner_;
  std::map<const std::byte*, Region> regions_;  // by the address of the buffer's first byte
};

}  // namespace winnow
