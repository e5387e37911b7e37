// The ops of the guard backend: open the argument tensors, call the inner backend, close them.
#include "compute/guard/guard_backend.h"

#include <vector>

namespace winnow {

// Opens tensors for the duration of one op. One that is read and written is listed in `writes` alone.
class GuardBackend::Scope {
 public:
  Scope(GuardBackend* guard, std::initializer_list<Tensor> reads, std::initializer_list<Tensor> writes)
      : guard_(guard) {
    for (const Tensor& tensor : reads) Add(tensor, Access::kRead);
    for (const Tensor& tensor : writes) Add(tensor, Access::kWrite);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() {
    for (const auto& [tensor, access] : open_) guard_->Close(tensor, access);
  }
  void Add(const Tensor& tensor, Access access) {
    guard_->Open(tensor, access);
    open_.emplace_back(tensor, access);
  }
  // A tensor that the op may do without.
  void AddIfGiven(const Tensor& tensor, Access access) {
    if (tensor.data() != nullptr) Add(tensor, access);
  }

 private:
  GuardBackend* guard_;
  std::vector<std::pair<Tensor, Access>> open_;
};

std::unique_ptr<Backend> MakeGuardBackend(std::unique_ptr<Backend> inner) {
  return std::make_unique<GuardBackend>(std::move(inner));
}

void GuardBackend::DoCopyToDevice(const Tensor& to, std::span<const std::byte> from) {
  const Scope scope(this, {}, {to});
  inner_->CopyToDevice(to, from);
}

void GuardBackend::DoCopyToHost(std::span<std::byte> to, const Tensor& from) {
  const Scope scope(this, {from}, {});
  inner_->CopyToHost(to, from);
}

void GuardBackend::DoFill(const Tensor& to, uint8_t value) {
  const Scope scope(this, {}, {to});
  inner_->Fill(to, value);
}

void GuardBackend::DoEmbed(const Weight& table, int64_t first_row, const Tensor& ids, const Tensor& out) {
  const Scope scope(this, {ids}, {out});
  inner_->Embed(table, first_row, ids, out);
}

void GuardBackend::DoRmsNorm(const Tensor& x, const Tensor& gain, float epsilon, const Tensor& out) {
  const Scope scope(this, {x, gain}, {out});
  inner_->RmsNorm(x, gain, epsilon, out);
}

void GuardBackend::DoMatMul(const Tensor& x, std::span<const MatMulTarget> targets) {
  Scope scope(this, {x}, {});
  for (const MatMulTarget& target : targets) scope.Add(target.out, Access::kWrite);
  inner_->MatMul(x, targets);
}

void GuardBackend::DoMatMulSegmented(const Tensor& x, const Weight& weight, int64_t segment_columns,
                                     FixedPoint fixed_point, const Tensor& sums) {
  const Scope scope(this, {x}, {sums});
  inner_->MatMulSegmented(x, weight, segment_columns, fixed_point, sums);
}

void GuardBackend::DoAddFixedPoint(const Tensor& sums, FixedPoint fixed_point, const Tensor& residual) {
  const Scope scope(this, {sums}, {residual});
  inner_->AddFixedPoint(sums, fixed_point, residual);
}

void GuardBackend::DoAdd(const Tensor& x, const Tensor& residual) {
  const Scope scope(this, {x}, {residual});
  inner_->Add(x, residual);
}

void GuardBackend::DoAddBias(const Tensor& bias, const Tensor& x) {
  const Scope scope(this, {bias}, {x});
  inner_->AddBias(bias, x);
}

void GuardBackend::DoRopeAppend(const RopeAppendArgs& args) {
  Scope scope(this, {args.k, args.v, args.cos_sin, args.physical_slots}, {args.q, args.pages});
  scope.AddIfGiven(args.mass, Access::kWrite);
  inner_->RopeAppend(args);
}

void GuardBackend::DoAttention(const AttentionArgs& args) {
  Scope scope(this, {args.q, args.page_table, args.row_sequence, args.visible, args.pages}, {args.out});
  scope.AddIfGiven(args.observe, Access::kRead);
  scope.AddIfGiven(args.mass, Access::kWrite);
  scope.AddIfGiven(args.peak_scale, Access::kRead);
  scope.AddIfGiven(args.peaks, Access::kWrite);
  inner_->Attention(args);
}

void GuardBackend::DoSiluMul(const Tensor& gate, const Tensor& up) {
  const Scope scope(this, {up}, {gate});
  inner_->SiluMul(gate, up);
}

void GuardBackend::DoFlagNotFinite(const Tensor& x, const Tensor& flags) {
  const Scope scope(this, {x}, {flags});
  inner_->FlagNotFinite(x, flags);
}

void GuardBackend::DoGatherRows(const Tensor& x, const Tensor& indices, const Tensor& out) {
  const Scope scope(this, {x, indices}, {out});
  inner_->GatherRows(x, indices, out);
}

void GuardBackend::DoZeroRows(const Tensor& x, const Tensor& indices) {
  const Scope scope(this, {indices}, {x});
  inner_->ZeroRows(x, indices);
}

void GuardBackend::DoCompact(const CompactArgs& args) {
  Scope scope(this, {args.moves}, {args.pages});
  scope.AddIfGiven(args.mass, Access::kWrite);
  inner_->Compact(args);
}

void GuardBackend::DoReadSlots(const SlotArgs& args) {
  Scope scope(this, {args.physical_slots, args.pages}, {});
  scope.AddIfGiven(args.keys, Access::kWrite);
  scope.AddIfGiven(args.values, Access::kWrite);
  inner_->ReadSlots(args);
}

void GuardBackend::DoWriteSlots(const SlotArgs& args) {
  Scope scope(this, {args.physical_slots, args.keys, args.values}, {args.pages});
  scope.AddIfGiven(args.mass, Access::kWrite);
  scope.AddIfGiven(args.slot_mass, Access::kRead);
  inner_->WriteSlots(args);
}

}  // namespace winnow
