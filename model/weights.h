// One rank's shard of a model's weights, packed by its backend: own query and KV heads, FFN columns and vocabulary
// rows. Read from its source once; the source may be closed afterwards. Immutable after loading.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "compute/backend.h"
#include "dist/shard.h"
#include "model/model_config.h"
#include "model/tensor_source.h"

namespace winnow {

struct LayerWeights {
  Buffer attention_norm;  // [hidden] f32
  Buffer ffn_norm;        // [hidden] f32
  // Empty where the model has none. Biases are in the order of their matrix's rows.
  Buffer q_bias;          // [local query heads * head_dim] f32
  Buffer k_bias, v_bias;  // [local KV heads * head_dim] f32
  Buffer q_norm, k_norm;  // [head_dim] f32
  // Rows of q and k are in half-split order (pairs i and i + head_dim / 2), whatever the file's order.
  std::unique_ptr<Weight> q;       // [local query heads * head_dim, hidden]
  std::unique_ptr<Weight> k;       // [local KV heads * head_dim, hidden]
  std::unique_ptr<Weight> v;       // [local KV heads * head_dim, hidden]
  std::unique_ptr<Weight> output;  // [hidden, local query heads * head_dim]
  std::unique_ptr<Weight> gate;    // [local FFN columns, hidden]
  std::unique_ptr<Weight> up;      // [local FFN columns, hidden]
  std::unique_ptr<Weight> down;    // [hidden, local FFN columns]
};

struct ModelWeights {
  std::vector<LayerWeights> layers;
  Buffer final_norm;                   // [hidden] f32
  std::unique_ptr<Weight> embedding;   // [local vocabulary rows, hidden]
  std::unique_ptr<Weight> vocab_head;  // null if tied: the embedding serves
  const Weight& head() const { return vocab_head ? *vocab_head : *embedding; }
  int64_t bytes() const;  // of all packed matrices, norms and biases
};

// The numbers a shard plan needs.
ShardDims ShardDimsOf(const ModelConfig& config);

// Reads this rank's part of a source that was checked against `config` (model/model_tensors.h). OutOfMemory if it does
// not fit. progress(bytes done, bytes in all) is called after every tensor, counting bytes of the source.
Result<ModelWeights> LoadWeights(const TensorSource& source, const ModelConfig& config, const ShardPlan& plan, int rank,
                                 Backend& backend, const std::function<void(int64_t, int64_t)>& progress);

}  // namespace winnow
