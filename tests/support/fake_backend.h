// Memory, copies, Fill and Compact in the plainest form, with a memory limit and counts of calls, for tests of what
// stands directly on memory (kv). Every other op ends the program. One thread.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "base/check.h"
#include "compute/backend.h"

namespace winnow {

class FakeBackend : public Backend {
 public:
  // Allocations beyond this many bytes in use fail.
  int64_t memory_limit = std::numeric_limits<int64_t>::max();
  int64_t num_allocations = 0;
  int64_t num_uploads = 0;
  int64_t num_compactions = 0;

  std::string name() const override { return "fake"; }
  std::string kernels() const override { return "none"; }
  void BeginTransfer(const Tensor&) override {}
  void EndTransfer(const Tensor&) override {}
  Result<std::unique_ptr<Weight>> Pack(const WeightSource&) override { return InternalError("fake: no weights"); }

 protected:
  std::byte* DoAllocate(int64_t bytes) override {
    if (bytes > memory_limit - bytes_allocated()) return nullptr;
    ++num_allocations;
    const size_t padded = (size_t(bytes) / 64 + 1) * 64;
    auto* data = static_cast<std::byte*>(std::aligned_alloc(64, padded));
    if (data != nullptr) std::memset(data, 0, padded);
    return data;
  }
  void DoFree(std::byte* data, int64_t) override { std::free(data); }
  void DoCopyToDevice(const Tensor& to, std::span<const std::byte> from) override {
    ++num_uploads;
    std::memcpy(to.data(), from.data(), from.size());
  }
  void DoCopyToHost(std::span<std::byte> to, const Tensor& from) override {
    std::memcpy(to.data(), from.data(), to.size());
  }
  void DoFill(const Tensor& to, uint8_t value) override { std::memset(to.data(), value, size_t(to.bytes())); }
  void DoZeroRows(const Tensor&, const Tensor&) override { NoSuchOp(); }
  void DoCompact(const CompactArgs& args) override {
    ++num_compactions;
    const int64_t element = BlockBytes(args.kv.dtype), head_dim = args.kv.head_dim;
    const auto k_at = [&](int64_t slot, int64_t pair) {
      return args.pages.data() + slot / kPageSlots * args.kv.page_bytes() +
             (pair * kPageSlots + slot % kPageSlots) * 2 * element;
    };
    const auto v_at = [&](int64_t slot) {
      return args.pages.data() + slot / kPageSlots * args.kv.page_bytes() +
             (kPageSlots + slot % kPageSlots) * head_dim * element;
    };
    const int32_t* moves = args.moves.as<int32_t>();
    for (int64_t i = 0; i < args.moves.dim(0); ++i) {
      const int64_t from = moves[2 * i], to = moves[2 * i + 1];
      for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
        std::memmove(k_at(to, pair), k_at(from, pair), size_t(2 * element));
      }
      std::memmove(v_at(to), v_at(from), size_t(head_dim * element));
    }
  }

  void DoEmbed(const Weight&, int64_t, const Tensor&, const Tensor&) override { NoSuchOp(); }
  void DoRmsNorm(const Tensor&, const Tensor&, float, const Tensor&) override { NoSuchOp(); }
  void DoMatMul(const Tensor&, std::span<const MatMulTarget>) override { NoSuchOp(); }
  void DoMatMulSegmented(const Tensor&, const Weight&, int64_t, FixedPoint, const Tensor&) override { NoSuchOp(); }
  void DoAddFixedPoint(const Tensor&, FixedPoint, const Tensor&) override { NoSuchOp(); }
  void DoAdd(const Tensor&, const Tensor&) override { NoSuchOp(); }
  void DoAddBias(const Tensor&, const Tensor&) override { NoSuchOp(); }
  void DoRopeAppend(const RopeAppendArgs&) override { NoSuchOp(); }
  void DoAttention(const AttentionArgs&) override { NoSuchOp(); }
  void DoSiluMul(const Tensor&, const Tensor&) override { NoSuchOp(); }
  void DoFlagNotFinite(const Tensor&, const Tensor&) override { NoSuchOp(); }
  void DoGatherRows(const Tensor&, const Tensor&, const Tensor&) override { NoSuchOp(); }
  void DoReadSlots(const SlotArgs&) override { NoSuchOp(); }
  void DoWriteSlots(const SlotArgs&) override { NoSuchOp(); }

 private:
  [[noreturn]] static void NoSuchOp() { CheckFailed(__FILE__, __LINE__, "the fake backend has no such op"); }
};

}  // namespace winnow
