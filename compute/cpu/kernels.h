// The table of CPU kernels: one set per instruction set, chosen once by MakeCpuBackend. Every set gives the same bits,
// because all are the same templates over 16 logical lanes (lanes_plain.h, lanes_avx2.h, lanes_avx512.h).
// Kernels work on ranges, hold no state and call no pool: any thread may call them on ranges of its own.
#pragma once

#include <cstdint>
#include <span>

#include "compute/backend.h"
#include "compute/cpu/tile.h"

namespace winnow::cpu {

// 32 activations of one row in int8, as two blocks of 16 with what every weight format needs of them, in one cache
// line.
struct alignas(64) ActivationBlock {
  int8_t q[32];
  float scale[2];      // d of inputs 0..15 and 16..31
  float sum[2];        // d * float(sum of q)
  int32_t int_sum[2];  // the sums of q themselves
};

// y = x W^T for one matrix. Either `out` or `sums` is set.
struct MatMulJob {
  TileKind kind;
  const std::byte* tiles;  // [ceil(outputs / 16)][blocks] tiles of kind
  int64_t outputs;         // N
  int64_t blocks;          // K / 32
  int64_t rows;
  const ActivationBlock* activations;  // [rows][blocks], for the quantised kinds
  const float* x;                      // [rows][32 * blocks], for the float kinds
  float* out = nullptr;                // [rows][outputs]
  int64_t* sums = nullptr;             // [rows][outputs + 1], last column zeroed before
  int64_t segment_blocks = 0;          // of sums
  FixedPoint fixed_point = {};         // of sums
};

// Query heads [head, head + heads) of token rows [row, row + rows), all of one sequence and one KV head, swept over K
// and V together. `rows * heads` is at most kMaxTileQueries.
struct AttentionTile {
  int64_t row, rows;
  int64_t head, heads;
  const int32_t* pages;    // page numbers of this sequence and KV head
  const int32_t* visible;  // of the first row; the next row's is `visible_stride` further
  int64_t visible_stride;
  const int32_t* observe;  // of the first row; null if no row of the tile is observed
  bool alone;              // no other tile has this sequence and KV head
  float* peaks;            // [slots] of this sequence and the first head; null if no peaks are asked for

  int64_t Visible(int64_t r) const { return visible[r * visible_stride]; }
  int64_t num_blocks() const { return (Visible(rows - 1) + kAttentionBlockSlots - 1) / kAttentionBlockSlots; }
  int64_t num_queries() const { return rows * heads; }
  bool Observed(int64_t r) const { return observe != nullptr && observe[r] != 0; }
  // Statistics need the weights of slots again when the sum over all blocks is known.
  bool keeps_weights() const { return observe != nullptr || peaks != nullptr; }
};
// With more, scores and queries push a block's keys out of the first-level cache (20: 58, 12: 64 GFLOP/s in prefill).
constexpr int64_t kMaxTileQueries = 12;

// What all tiles of one call share.
struct AttentionJob {
  const float* q;  // [rows][query_heads][head_dim]
  float* out;      // the same
  int64_t query_heads;
  const std::byte* pool;  // pages
  KvLayout kv;
  int64_t page_bytes;       // kv.page_bytes(), which is too slow to ask for every page
  int64_t* mass;            // by physical slot; used by tiles with observed rows
  bool one_thread;          // only one thread works on the job
  const float* peak_scale;  // [rows]; used by tiles with peaks
  int64_t peak_slots;       // from one query head's peaks to the next one's
};

// The result of one block for one query, [head_dim + 32] floats: the weighted sum of V, 16 lanes of the sum of weights,
// and a line of its own for the block's maximum (NaN if a score was NaN; the block's weight after the merge) and, in
// the first block, the reciprocal of the sum of weights (after the merge; NaN if a score was NaN).
inline int64_t PartialFloats(int64_t head_dim) {
  return head_dim + 32;
}
inline int64_t MaximumOffset(int64_t head_dim) {
  return head_dim + 16;
}
inline int64_t ReciprocalOffset(int64_t head_dim) {
  return head_dim + 17;
}

// All that is kept of one block of a tile: partials [queries][PartialFloats] and, if statistics are asked for, the
// weights of slots, relative to the block's maximum, [queries][128].
inline int64_t BlockFloats(const AttentionTile& tile, int64_t head_dim) {
  const int64_t weights = tile.keeps_weights() ? kAttentionBlockSlots : 0;
  return tile.num_queries() * (PartialFloats(head_dim) + weights);
}

struct CpuKernels {
  const char* name;
  void (*quantise)(const float* x, int64_t blocks, ActivationBlock* out);
  void (*mat_mul)(const MatMulJob& job, int64_t tile_begin, int64_t tile_end);
  // One block of a tile: [BlockFloats]. Queries that do not see the block are not written.
  void (*attend_block)(const AttentionJob& job, const AttentionTile& tile, int64_t block, float* partials);
  // Adds partials [blocks][BlockFloats] in order and writes the tile's rows of out.
  void (*merge_blocks)(const AttentionJob& job, const AttentionTile& tile, float* partials);
  // Adds the mass of one block of a tile with observed rows, after merge_blocks with the same partials.
  void (*add_mass)(const AttentionJob& job, const AttentionTile& tile, int64_t block, const float* partials);
  // Raises the peaks of one block of a tile with peaks, likewise.
  void (*raise_peaks)(const AttentionJob& job, const AttentionTile& tile, int64_t block, const float* partials);
  void (*rms_norm)(const float* x, const float* gain, float epsilon, int64_t n, float* out);
  void (*silu_mul)(float* gate, const float* up, int64_t n);
  void (*add_sums)(const int64_t* sums, float unit, int64_t n, float* to);
};

const CpuKernels& PlainKernels();
const CpuKernels& Avx2Kernels();
const CpuKernels& Avx512Kernels();  // needs F, BW, DQ, VL and VNNI

struct KernelSet {
  const char* name;
  bool runs_here;  // on this CPU
  const CpuKernels& (*get)();
};

// Every set, the best first.
std::span<const KernelSet> KernelSets();

}  // namespace winnow::cpu
