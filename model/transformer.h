// The forward pass of a Llama-shaped model on one rank of a group, written once over Backend and Communicator. It knows
// pages and slots, nothing of sequences, policies or eviction. Collective; engine thread only.
//
// Collectives of one call with R rows, hidden size H and L layers, where the group has more than one rank:
//   1 all-reduce of 4 R H bytes (embedding: the owner's float bits plus zeros), then
//   2 L all-reduces of 8 R (H + 1) bytes (attention output and FFN output, with a flag per row); kFast: 4 R H bytes.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "compute/backend.h"
#include "dist/communicator.h"
#include "dist/exact_sum.h"
#include "dist/shard.h"
#include "kv/kv_batch.h"
#include "model/model_config.h"
#include "model/rotary.h"
#include "model/weights.h"

namespace winnow {

// How sums that cross ranks are formed. kExact: integers, contracts E1-E5. kFast: float sums over whatever this rank
// has; gives E1-E4 up, but all ranks of one run still hold the same bits.
enum class Numerics { kExact, kFast };

// Weights that are added to the model's for some rows of a step (low-rank updates, on during probe passes only). None
// can be made yet: the handle keeps the place, and rows that carry one are refused.
class Adapter;

// One step's rows; rows of one sequence are consecutive. All spans have one element a row, but for logit_rows,
// query_rows and embeddings.
struct ForwardBatch {
  static constexpr int32_t kEmbedding = -1;  // in token_ids: the row takes the next one of `embeddings`

  std::span<const int32_t> token_ids;
  std::span<const int64_t> positions;   // absolute
  std::span<const int32_t> logit_rows;  // ascending rows whose logits are wanted
  const KvBatch* kv;                    // the step's slots, already appended
  Tensor pages;                         // of the pool
  // Rows whose attention is added to `mass` (the pool's); both empty if no sequence of the step is observed.
  std::span<const int32_t> observe = {};
  Tensor mass = {};
  std::span<const float> embeddings = {};         // [rows with kEmbedding][hidden size], the same on all ranks
  std::span<const Adapter* const> adapters = {};  // null: none for the row; empty: none at all
  // Ascending rows whose queries are wanted.
  std::span<const int32_t> query_rows = {};
  // The step ends when the last layer's keys and values are written: no logits, and not_finite tells of the layers
  // before. For rows whose cache entries alone are wanted.
  bool stop_after_kv = false;
  // [layers, sequences, query heads of this rank, slots] f32: the most that any row attends to each slot
  // (AttentionArgs::peaks); empty: not wanted.
  Tensor peaks = {};
  // Rows count in them by the reciprocal of the length of their layer's attention input (after the input norm), 0 where
  // that is 0 or not finite; otherwise all rows count 1.
  bool peaks_by_input = false;
};

// What a step leaves on the host. The same on all ranks but for which vocabulary rows the logits are of, and which
// heads the queries.
struct ForwardResult {
  std::vector<float> logits;  // [wanted rows][this rank's vocabulary rows]
  // [layer][wanted rows][query heads of this rank][head_dim]: rotated and scaled, as attention uses them. These are of
  // this rank's heads.
  std::vector<float> queries;
  std::vector<int32_t> not_finite;  // [rows] 1: a sum of this row left the fixed-point range or met a NaN
};

class Transformer {
 public:
  // backend and communicator must outlive it.
  Transformer(const ModelConfig& config, const ShardPlan& plan, ModelWeights weights, const KvLayout& kv,
              Numerics numerics, Backend& backend, Communicator& communicator);

  // Writes keys and values of every row into the cache. OutOfMemory if the work space does not fit, InvalidArgument if
  // a row has an adapter.
  Status Forward(const ForwardBatch& batch, ForwardResult* result);

  // What the output projection of a layer makes of the value of one of this rank's query heads: [head_dim][hidden
  // size], the products with the unit vectors, as MatMul forms them, so the same for any split of heads. No collective.
  Status ReadOutputColumns(int64_t layer, int64_t local_query_head, std::vector<float>* columns);

  const ModelConfig& config() const { return config_; }
  const ShardPlan& plan() const { return plan_; }
  // [head_dim / 2], radians per position: pairs (i, i + head_dim / 2) turn by them.
  std::span<const double> rotary_frequencies() const { return rotary_.frequencies(); }
  Range vocab_rows() const { return plan_.vocab_rows[size_t(communicator_.rank())]; }
  Range kv_heads() const { return plan_.kv_heads[size_t(communicator_.rank())]; }
  Range query_heads() const { return plan_.query_heads(communicator_.rank()); }
  int64_t weight_bytes() const { return weights_.bytes(); }

 private:
  // Buffers for a number of rows; grown when a larger step comes.
  struct Workspace {
    int64_t rows = 0;
    Buffer ids, observe, query_rows, peak_scale, not_finite, cos_sin, hidden, normed, q, k, v, attended, gate, up, sums,
        float_sums;
  };
  Status EnsureWorkspace(int64_t rows);
  Status UploadRows(const ForwardBatch& batch);
  void EmbedRows(const ForwardBatch& batch);
  // Keys and values of a layer into the cache, rotated queries into work_.q.
  void AppendKv(const ForwardBatch& batch, int64_t layer_index);
  // The wanted queries of a layer to their place in `queries`.
  void CopyQueries(const ForwardBatch& batch, int64_t layer_index, std::span<float> queries);
  void Attend(const ForwardBatch& batch, int64_t layer_index);
  // [rows] f32 on the device: by how much each row counts in the layer's peaks.
  Tensor PeakScale(const ForwardBatch& batch, int64_t rows);
  void FeedForward(const LayerWeights& layer, int64_t rows);
  // hidden += x W^T, summed over ranks.
  void AddProjection(const Tensor& x, const Weight& weight, int64_t segment_columns, int64_t rows);
  Status Logits(const ForwardBatch& batch, std::vector<float>* logits);
  Tensor View(const Buffer& buffer, int64_t rows, int64_t columns) const {
    return buffer.View(DType::kF32, {rows, columns});
  }

  const ModelConfig config_;
  const ShardPlan plan_;
  const ModelWeights weights_;
  const KvLayout kv_;
  const Numerics numerics_;
  Backend& backend_;
  Communicator& communicator_;
  ExactSum exact_sum_;
  RotaryTable rotary_;
  Workspace work_;
  int64_t local_q_columns_, local_kv_columns_, local_ffn_columns_;
};

}  // namespace winnow
