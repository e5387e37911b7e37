// Shape checks and work counts, once for all backends.
#include "compute/backend.h"

#include "base/check.h"

namespace winnow {
namespace {

bool IsMatrix(const Tensor& t, DType dtype, int64_t rows, int64_t columns) {
  return t.Is(dtype, {rows, columns});
}

void CheckPages(const Tensor& pages, const KvLayout& kv) {
  WINNOW_CHECK(kv.head_dim > 0 && kv.head_dim % 16 == 0);
  WINNOW_CHECK(kv.dtype == DType::kBF16 || kv.dtype == DType::kF32);
  WINNOW_CHECK(pages.rank() == 1 && pages.bytes() % kv.page_bytes() == 0);
}

// Mass is optional: an empty tensor, or one row of 16 counters a page.
void CheckMass(const Tensor& mass, const Tensor& pages, const KvLayout& kv) {
  if (mass.data() == nullptr) return;
  WINNOW_CHECK(mass.Is(DType::kI64, {pages.bytes() / kv.page_bytes(), kPageSlots}));
}

void CheckSlots(const SlotArgs& args) {
  CheckPages(args.pages, args.kv);
  CheckMass(args.mass, args.pages, args.kv);
  const int64_t num_slots = args.physical_slots.dim(0);
  WINNOW_CHECK(args.physical_slots.Is(DType::kI32, {num_slots}));
  for (const Tensor* rows : {&args.keys, &args.values}) {
    WINNOW_CHECK(rows->data() == nullptr || rows->Is(DType::kF32, {num_slots, args.kv.head_dim}));
  }
  WINNOW_CHECK(args.slot_mass.data() == nullptr || args.slot_mass.Is(DType::kI64, {num_slots}));
}

}  // namespace

Buffer::~Buffer() {
  if (backend_ == nullptr) return;
  backend_->bytes_allocated_ -= bytes_;
  backend_->DoFree(data_, bytes_);
}

Result<Buffer> Backend::Allocate(int64_t bytes) {
  WINNOW_CHECK(bytes >= 0);
  std::byte* data = DoAllocate(bytes);
  if (data == nullptr) {
    return OutOfMemory("a buffer of " + std::to_string(bytes) + " bytes could not be allocated on " + name());
  }
  bytes_allocated_ += bytes;
  return Buffer(this, data, bytes);
}

void Backend::CopyToDevice(const Tensor& to, std::span<const std::byte> from) {
  WINNOW_CHECK(to.bytes() == int64_t(from.size()));
  if (!from.empty()) DoCopyToDevice(to, from);
}

void Backend::CopyToHost(std::span<std::byte> to, const Tensor& from) {
  WINNOW_CHECK(from.bytes() == int64_t(to.size()));
  if (!to.empty()) DoCopyToHost(to, from);
}

void Backend::Fill(const Tensor& to, uint8_t value) {
  DoFill(to, value);
}

void Backend::Embed(const Weight& table, int64_t first_row, const Tensor& ids, const Tensor& out) {
  WINNOW_CHECK(ids.dtype() == DType::kI32 && ids.rank() == 1);
  WINNOW_CHECK(IsMatrix(out, DType::kF32, ids.dim(0), table.columns()));
  DoEmbed(table, first_row, ids, out);
}

void Backend::RmsNorm(const Tensor& x, const Tensor& gain, float epsilon, const Tensor& out) {
  WINNOW_CHECK(x.rank() == 2 && x.dim(1) % 16 == 0 && x.dtype() == DType::kF32);
  WINNOW_CHECK(gain.Is(DType::kF32, {x.dim(1)}));
  WINNOW_CHECK(IsMatrix(out, DType::kF32, x.dim(0), x.dim(1)));
  DoRmsNorm(x, gain, epsilon, out);
}

void Backend::MatMul(const Tensor& x, std::span<const MatMulTarget> targets) {
  WINNOW_CHECK(x.rank() == 2 && x.dtype() == DType::kF32 && x.dim(1) % 32 == 0);
  for (const MatMulTarget& target : targets) {
    WINNOW_CHECK(target.weight->columns() == x.dim(1));
    WINNOW_CHECK(IsMatrix(target.out, DType::kF32, x.dim(0), target.weight->rows()));
    work_.matmul_flops += 2 * x.dim(0) * target.weight->rows() * target.weight->columns();
  }
  DoMatMul(x, targets);
}

void Backend::MatMulSegmented(const Tensor& x, const Weight& weight, int64_t segment_columns, FixedPoint fixed_point,
                              const Tensor& sums) {
  WINNOW_CHECK(x.Is(DType::kF32, {x.dim(0), weight.columns()}));
  WINNOW_CHECK(segment_columns > 0 && segment_columns % 32 == 0 && weight.columns() % segment_columns == 0);
  WINNOW_CHECK(IsMatrix(sums, DType::kI64, x.dim(0), weight.rows() + 1));
  work_.matmul_flops += 2 * x.dim(0) * weight.rows() * weight.columns();
  DoMatMulSegmented(x, weight, segment_columns, fixed_point, sums);
}

void Backend::AddFixedPoint(const Tensor& sums, FixedPoint fixed_point, const Tensor& residual) {
  WINNOW_CHECK(residual.rank() == 2 && residual.dtype() == DType::kF32);
  WINNOW_CHECK(IsMatrix(sums, DType::kI64, residual.dim(0), residual.dim(1) + 1));
  DoAddFixedPoint(sums, fixed_point, residual);
}

void Backend::Add(const Tensor& x, const Tensor& residual) {
  WINNOW_CHECK(x.rank() == 2 && x.dtype() == DType::kF32);
  WINNOW_CHECK(IsMatrix(residual, DType::kF32, x.dim(0), x.dim(1)));
  DoAdd(x, residual);
}

void Backend::AddBias(const Tensor& bias, const Tensor& x) {
  WINNOW_CHECK(x.rank() == 2 && x.dtype() == DType::kF32);
  WINNOW_CHECK(bias.Is(DType::kF32, {x.dim(1)}));
  DoAddBias(bias, x);
}

void Backend::RopeAppend(const RopeAppendArgs& args) {
  CheckPages(args.pages, args.kv);
  const int64_t rows = args.q.dim(0), kv_heads = args.k.dim(1), head_dim = args.kv.head_dim;
  WINNOW_CHECK(args.q.Is(DType::kF32, {rows, args.q.dim(1), head_dim}));
  WINNOW_CHECK(args.k.Is(DType::kF32, {rows, kv_heads, head_dim}));
  WINNOW_CHECK(args.v.Is(DType::kF32, {rows, kv_heads, head_dim}));
  WINNOW_CHECK(args.cos_sin.Is(DType::kF32, {rows, head_dim}));
  CheckMass(args.mass, args.pages, args.kv);
  WINNOW_CHECK(args.physical_slots.Is(DType::kI32, {rows, kv_heads}));
  DoRopeAppend(args);
}

void Backend::Attention(const AttentionArgs& args) {
  CheckPages(args.pages, args.kv);
  const int64_t rows = args.q.dim(0), query_heads = args.q.dim(1), head_dim = args.kv.head_dim;
  WINNOW_CHECK(args.page_table.rank() == 3 && args.page_table.dtype() == DType::kI32);
  const int64_t kv_heads = args.page_table.dim(1);
  WINNOW_CHECK(kv_heads > 0 && query_heads % kv_heads == 0);
  WINNOW_CHECK(args.q.Is(DType::kF32, {rows, query_heads, head_dim}));
  WINNOW_CHECK(args.out.Is(DType::kF32, {rows, query_heads, head_dim}));
  WINNOW_CHECK(args.row_sequence.Is(DType::kI32, {rows}));
  WINNOW_CHECK(args.visible.Is(DType::kI32, {rows, kv_heads}));
  CheckMass(args.mass, args.pages, args.kv);
  WINNOW_CHECK((args.observe.data() == nullptr) == (args.mass.data() == nullptr));
  WINNOW_CHECK(args.observe.data() == nullptr || args.observe.Is(DType::kI32, {rows}));
  WINNOW_CHECK((args.peaks.data() == nullptr) == (args.peak_scale.data() == nullptr));
  if (args.peaks.data() != nullptr) {
    WINNOW_CHECK(args.peak_scale.Is(DType::kF32, {rows}));
    WINNOW_CHECK(args.peaks.Is(DType::kF32, {args.page_table.dim(0), query_heads, args.peaks.dim(2)}));
    WINNOW_CHECK(args.peaks.dim(2) >= args.page_table.dim(2) * kPageSlots);
  }
  DoAttention(args);
}

void Backend::SiluMul(const Tensor& gate, const Tensor& up) {
  WINNOW_CHECK(gate.rank() == 2 && gate.dim(1) % 16 == 0);
  WINNOW_CHECK(up.Is(DType::kF32, {gate.dim(0), gate.dim(1)}) && gate.dtype() == DType::kF32);
  DoSiluMul(gate, up);
}

void Backend::FlagNotFinite(const Tensor& x, const Tensor& flags) {
  WINNOW_CHECK(x.rank() == 2 && x.dtype() == DType::kF32);
  WINNOW_CHECK(flags.Is(DType::kI32, {x.dim(0)}));
  DoFlagNotFinite(x, flags);
}

void Backend::GatherRows(const Tensor& x, const Tensor& indices, const Tensor& out) {
  WINNOW_CHECK(x.rank() == 2 && indices.rank() == 1 && indices.dtype() == DType::kI32);
  WINNOW_CHECK(IsMatrix(out, DType::kF32, indices.dim(0), x.dim(1)));
  DoGatherRows(x, indices, out);
}

void Backend::ZeroRows(const Tensor& x, const Tensor& indices) {
  WINNOW_CHECK(x.rank() == 2 && x.dtype() == DType::kI64);
  WINNOW_CHECK(indices.rank() == 1 && indices.dtype() == DType::kI32);
  DoZeroRows(x, indices);
}

void Backend::Compact(const CompactArgs& args) {
  CheckPages(args.pages, args.kv);
  CheckMass(args.mass, args.pages, args.kv);
  WINNOW_CHECK(args.moves.Is(DType::kI32, {args.moves.dim(0), 2}));
  DoCompact(args);
}

void Backend::ReadSlots(const SlotArgs& args) {
  CheckSlots(args);
  DoReadSlots(args);
}

void Backend::WriteSlots(const SlotArgs& args) {
  CheckSlots(args);
  WINNOW_CHECK(args.keys.data() != nullptr && args.values.data() != nullptr);
  WINNOW_CHECK(args.slot_mass.data() == nullptr || args.mass.data() != nullptr);
  DoWriteSlots(args);
}

}  // namespace winnow
