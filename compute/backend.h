// The op table: memory and arithmetic of one device. Everything above compute/ works through it and never touches
// device memory itself (the guard backend enforces that). One Backend per rank; the engine thread alone calls it.
//
// Public functions check shapes (programmer mistakes end the program), count work, and call the Do... function of the
// backend. Ops are ordered among themselves. `rows` is the number of token rows of a step, in every op.
//
// Arithmetic contract (docs/contracts.md has the full text): an output element's operations and their order depend on
// the model's numbers alone, never on how many rows, ranks or threads there are. Only + - * / sqrt and fma; 16 logical
// lanes where a sum is split, added by the tree 8, 4, 2, 1. NaN and infinities in a row stay in that row.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "compute/buffer.h"
#include "compute/kv_layout.h"
#include "compute/tensor.h"
#include "compute/weight.h"

namespace winnow {

// What was really computed, for the `work` part of results. Grows only.
struct WorkCounters {
  int64_t matmul_flops = 0;  // 2 * rows * outputs * inputs of every matrix product
};

// One output of a MatMul.
struct MatMulTarget {
  const Weight* weight;  // [N, K]
  Tensor out;            // [rows, N] f32
};

// Fixed-point form of sums that cross ranks: 64-bit integers in steps of 1 / steps_per_unit.
// A partial sum is out of range if !(|partial| < limit); limits leave room for the number of partials that are added.
struct FixedPoint {
  float steps_per_unit;
  float limit;
};

struct RopeAppendArgs {
  Tensor q;               // [rows, query_heads, head_dim] f32, in place: rotated, then multiplied by q_scale
  Tensor k;               // [rows, kv_heads, head_dim] f32
  Tensor v;               // [rows, kv_heads, head_dim] f32
  Tensor cos_sin;         // [rows, head_dim] f32: head_dim/2 cosines, then head_dim/2 sines of each row's position
  Tensor physical_slots;  // [rows, kv_heads] i32: where each row's key and value go
  Tensor pages;           // [num_pages * page_bytes / 4] f32 view of the pool; its element type is kv.dtype
  KvLayout kv;
  float q_scale;
  Tensor mass = {};  // [num_pages, 16] i64, by physical slot: a written slot's mass becomes 0. Empty: none is kept
};

struct AttentionArgs {
  Tensor q;             // [rows, query_heads, head_dim] f32, rotated and scaled
  Tensor out;           // [rows, query_heads, head_dim] f32
  Tensor page_table;    // [sequences, kv_heads, max_pages] i32: page of slots 16 i .. 16 i + 15; unused entries are any
  Tensor row_sequence;  // [rows] i32: index into page_table; rows of one sequence are consecutive
  Tensor visible;       // [rows, kv_heads] i32: number of slots the row sees, its own included; rises by 1 per row
                        // within a sequence
  Tensor pages;         // as in RopeAppendArgs
  KvLayout kv;
  // Attention statistics, asked for by eviction policies; empty: none. For a row with observe[row] != 0, every visible
  // slot of every KV head gains, for each query head of the group, round(p * ((2^30 * b) * r)) steps, where p is the
  // slot's weight within its block, b its block's weight exp(block maximum - maximum) and r the reciprocal of the sum
  // of weights (float products in this order, nearest even): its softmax weight in steps of 2^-30. A query head's row
  // adds nothing if it has NaN scores or if its weights sum to 0 (infinite scores).
  Tensor observe = {};  // [rows] i32
  Tensor mass = {};     // as in RopeAppendArgs
  // The most weight that any query of a pass gives to a slot, asked for by replays of a context; empty: none. For every
  // row, query head and visible slot, the entry of `peaks` becomes the larger of what it is and p * ((scale * b) * r),
  // with p, b and r as above and the row's scale (float products in this order). Rows that add no mass leave no peak.
  Tensor peak_scale = {};  // [rows] f32, finite, 0 or more
  Tensor peaks = {};       // [sequences, query_heads, slots] f32, 0 or more; slots: at least those of max_pages
};

struct CompactArgs {
  Tensor moves;  // [n, 2] i32: physical source slot, physical destination slot; done in order
  Tensor pages;  // as in RopeAppendArgs
  KvLayout kv;
  Tensor mass = {};  // as in RopeAppendArgs: moves along
};

// Keys, values and statistics of single slots, to and from float tensors. A float written and read again is the same
// float if it came from a slot of the same kv.dtype.
struct SlotArgs {
  Tensor physical_slots;  // [n] i32
  Tensor keys = {};       // [n, head_dim] f32, rotated as they are stored; empty: not read
  Tensor values = {};     // [n, head_dim] f32; empty: not read
  Tensor pages;           // as in RopeAppendArgs
  KvLayout kv;
  Tensor mass = {};       // as in RopeAppendArgs: written slots take slot_mass, or 0 without it
  Tensor slot_mass = {};  // [n] i64
};

class Backend {
 public:
  virtual ~Backend() = default;

  // "cpu", "reference", "guard(cpu)".
  virtual std::string name() const = 0;
  // The kernels in use, e.g. "avx2" or "plain"; "float" or "quantised" for the reference.
  virtual std::string kernels() const = 0;

  // ---- memory ----
  // 64-byte aligned, zeroed.
  Result<Buffer> Allocate(int64_t bytes);
  int64_t bytes_allocated() const { return bytes_allocated_; }
  void CopyToDevice(const Tensor& to, std::span<const std::byte> from);
  void CopyToHost(std::span<std::byte> to, const Tensor& from);
  // Fills the tensor with one byte value (0 to clear, 0xff to poison released pages in tests).
  void Fill(const Tensor& to, uint8_t value);
  // Brackets access to device memory by a transport (Communicator), in place of an op. Calls nest.
  virtual void BeginTransfer(const Tensor& tensor) = 0;
  virtual void EndTransfer(const Tensor& tensor) = 0;

  // Takes rows and columns of a file's matrix into this backend's layout. Fails if memory does not suffice.
  virtual Result<std::unique_ptr<Weight>> Pack(const WeightSource& source) = 0;

  // ---- ops ----
  // out [rows, hidden] f32 = row ids[i] - first_row of `table` [local rows, hidden], de-quantised as scale * q + min in
  // float; rows outside [first_row, first_row + table.rows()) become all-zero bits. ids [rows] i32.
  void Embed(const Weight& table, int64_t first_row, const Tensor& ids, const Tensor& out);

  // out [rows, hidden] f32 = x / sqrt(mean(x^2) + epsilon) * gain. x [rows, hidden] f32, gain [hidden] f32. out may be
  // x.
  // A row whose sum of squares overflows becomes NaN: dividing by infinity would hide it as zeros.
  void RmsNorm(const Tensor& x, const Tensor& gain, float epsilon, const Tensor& out);

  // out_t [rows, N_t] = x [rows, K] W_t^T for every target. Weights in quantised formats multiply x quantised to int8
  // in blocks of 16 along K; weights in F32, F16, BF16 multiply x in float.
  void MatMul(const Tensor& x, std::span<const MatMulTarget> targets);

  // The same product, cut along K into segments of `segment_columns`: each segment's float sum becomes an integer in
  // steps of the fixed point (round to nearest even) and is added to sums[row][n] as an integer. sums [rows, N + 1] i64
  // is overwritten; its last column becomes the number of out-of-range or NaN partials of the row.
  void MatMulSegmented(const Tensor& x, const Weight& weight, int64_t segment_columns, FixedPoint fixed_point,
                       const Tensor& sums);

  // residual [rows, N] f32 += float(sums [rows, N + 1] i64) / steps_per_unit (conversion of the integer to float rounds
  // to nearest even); a row whose last column is not 0 becomes NaN as a whole.
  void AddFixedPoint(const Tensor& sums, FixedPoint fixed_point, const Tensor& residual);

  // residual [rows, N] f32 += x [rows, N] f32 (--numerics fast).
  void Add(const Tensor& x, const Tensor& residual);

  // x [rows, N] f32 += bias [N] f32, in every row.
  void AddBias(const Tensor& bias, const Tensor& x);

  // Rotates q and k (pairs i and i + head_dim / 2), scales q, rounds k and v to kv.dtype and writes them into pages.
  void RopeAppend(const RopeAppendArgs& args);

  // Softmax attention of every row over its visible slots; query heads h*G .. h*G+G-1 use KV head h.
  void Attention(const AttentionArgs& args);

  // gate [rows, n] f32 = gate / (1 + exp(-gate)) * up.
  void SiluMul(const Tensor& gate, const Tensor& up);

  // flags [rows] i32 = 1 for rows of x [rows, n] f32 that hold a NaN or an infinity, otherwise 0.
  void FlagNotFinite(const Tensor& x, const Tensor& flags);

  // out [n, width] f32 = x[indices[i]]. indices [n] i32.
  void GatherRows(const Tensor& x, const Tensor& indices, const Tensor& out);

  // rows indices[i] of x [n, width] i64 become 0. indices [m] i32.
  void ZeroRows(const Tensor& x, const Tensor& indices);

  // Copies keys and values of slots (and their mass), in the order of the moves.
  void Compact(const CompactArgs& args);

  // Fills keys and values (those that are given) from the slots. Mass is not read.
  void ReadSlots(const SlotArgs& args);

  // Writes keys and values (both are given), rounded to kv.dtype, into the slots as they are: nothing is rotated.
  void WriteSlots(const SlotArgs& args);

  const WorkCounters& work() const { return work_; }

 protected:
  friend class Buffer;
  virtual std::byte* DoAllocate(int64_t bytes) = 0;  // null if there is no memory
  virtual void DoFree(std::byte* data, int64_t bytes) = 0;
  virtual void DoCopyToDevice(const Tensor& to, std::span<const std::byte> from) = 0;
  virtual void DoCopyToHost(std::span<std::byte> to, const Tensor& from) = 0;
  virtual void DoFill(const Tensor& to, uint8_t value) = 0;
  virtual void DoEmbed(const Weight& table, int64_t first_row, const Tensor& ids, const Tensor& out) = 0;
  virtual void DoRmsNorm(const Tensor& x, const Tensor& gain, float epsilon, const Tensor& out) = 0;
  virtual void DoMatMul(const Tensor& x, std::span<const MatMulTarget> targets) = 0;
  virtual void DoMatMulSegmented(const Tensor& x, const Weight& weight, int64_t segment_columns, FixedPoint fixed_point,
                                 const Tensor& sums) = 0;
  virtual void DoAddFixedPoint(const Tensor& sums, FixedPoint fixed_point, const Tensor& residual) = 0;
  virtual void DoAdd(const Tensor& x, const Tensor& residual) = 0;
  virtual void DoAddBias(const Tensor& bias, const Tensor& x) = 0;
  virtual void DoRopeAppend(const RopeAppendArgs& args) = 0;
  virtual void DoAttention(const AttentionArgs& args) = 0;
  virtual void DoSiluMul(const Tensor& gate, const Tensor& up) = 0;
  virtual void DoFlagNotFinite(const Tensor& x, const Tensor& flags) = 0;
  virtual void DoGatherRows(const Tensor& x, const Tensor& indices, const Tensor& out) = 0;
  virtual void DoZeroRows(const Tensor& x, const Tensor& indices) = 0;
  virtual void DoCompact(const CompactArgs& args) = 0;
  virtual void DoReadSlots(const SlotArgs& args) = 0;
  virtual void DoWriteSlots(const SlotArgs& args) = 0;

 private:
  WorkCounters work_;
  int64_t bytes_allocated_ = 0;
};

// The fast CPU kernels. `kernels`: "auto" (the best this machine runs), "avx2" or "plain". InvalidArgument for other
// kernels, for those that this CPU lacks, and for numbers of threads outside 1 to 1024.
Result<std::unique_ptr<Backend>> MakeCpuBackend(int num_threads, const std::string& kernels = "auto");

// Plain loops, the oracle. kQuantised: the very arithmetic of the CPU backend (equal bits). kFloat: activations stay
// float against de-quantised weights, accumulated in double, so that nothing but the file's own rounding is left.
enum class ReferenceArithmetic { kQuantised, kFloat };
std::unique_ptr<Backend> MakeReferenceBackend(ReferenceArithmetic arithmetic);

// Wraps a backend: the same ops, but every buffer is unreadable (PROT_NONE) outside an op, copy or transfer.
std::unique_ptr<Backend> MakeGuardBackend(std::unique_ptr<Backend> inner);

}  // namespace winnow
