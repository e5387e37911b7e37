#include "model/weights.h"

#include <numeric>
#include <string>

#include "compute/weight_blocks.h"

namespace winnow {
namespace {

std::vector<int64_t> RowsOf(Range range) {
  std::vector<int64_t> rows(size_t(range.size()));
  std::iota(rows.begin(), rows.end(), range.begin);
  return rows;
}

// File rows of the heads in `heads`, in half-split order. GGUF files of the llama family keep the rows of Q and K with
// the two halves of a head interleaved (row 2 i + s is dimension i of half s).
std::vector<int64_t> HeadRows(Range heads, int64_t head_dim, bool interleaved) {
  std::vector<int64_t> rows;
  for (int64_t head = heads.begin; head < heads.end; ++head) {
    for (int64_t r = 0; r < head_dim; ++r) {
      const int64_t half = r / (head_dim / 2), i = r % (head_dim / 2);
      rows.push_back(head * head_dim + (interleaved ? 2 * i + half : r));
    }
  }
  return rows;
}

Range Scale(Range range, int64_t factor) {
  return {range.begin * factor, range.end * factor};
}

// Reads the tensors of one model for one rank, counting file bytes for the progress report.
class Loader {
 public:
  Loader(const TensorSource& source, Backend& backend, const std::function<void(int64_t, int64_t)>& progress)
      : source_(source), backend_(backend), progress_(progress), total_bytes_(source.total_bytes()) {}

  // Chosen rows; all columns, or the range `columns`.
  Status Matrix(const std::string& name, std::vector<int64_t> rows, Range columns, std::unique_ptr<Weight>* out) {
    WINNOW_ASSIGN_OR_RETURN(const TensorInfo* tensor, source_.Get(name));
    WINNOW_ASSIGN_OR_RETURN(TensorRows part, source_.Rows(*tensor, std::move(rows)));
    const WeightSource packed{tensor->dtype,        part.data,     tensor->shape[0],
                              std::move(part.rows), columns.begin, columns.end};
    WINNOW_ASSIGN_OR_RETURN(*out, backend_.Pack(packed));
    Finish(*tensor);
    return OkStatus();
  }

  // All elements of a vector, or those of chosen indices.
  Status Vector(const std::string& name, Buffer* out) { return Elements(name, nullptr, out); }
  Status Vector(const std::string& name, const std::vector<int64_t>& indices, Buffer* out) {
    return Elements(name, &indices, out);
  }

 private:
  Status Elements(const std::string& name, const std::vector<int64_t>* indices, Buffer* out) {
    WINNOW_ASSIGN_OR_RETURN(const TensorInfo* tensor, source_.Get(name));
    WINNOW_ASSIGN_OR_RETURN(const TensorRows row, source_.Rows(*tensor, {0}));
    const int64_t size = tensor->shape[0];
    std::vector<float> values(static_cast<size_t>(size));
    DequantiseRow(tensor->dtype, row.data.data() + row.rows[0] * BytesOf(tensor->dtype, size), 0, size, values.data());
    if (indices != nullptr) {
      std::vector<float> chosen;
      for (const int64_t index : *indices) chosen.push_back(values[size_t(index)]);
      values = std::move(chosen);
    }
    const int64_t count = int64_t(values.size());
    WINNOW_ASSIGN_OR_RETURN(*out, backend_.Allocate(count * int64_t(sizeof(float))));
    backend_.CopyToDevice(out->View(DType::kF32, {count}), std::as_bytes(std::span(values)));
    Finish(*tensor);
    return OkStatus();
  }
  void Finish(const TensorInfo& tensor) {
    source_.Release(tensor);  // so that no more than one tensor of the file is resident beside what is packed
    done_bytes_ += tensor.num_bytes;
    if (progress_) progress_(done_bytes_, total_bytes_);
  }

  const TensorSource& source_;
  Backend& backend_;
  const std::function<void(int64_t, int64_t)>& progress_;
  int64_t total_bytes_, done_bytes_ = 0;
};

Status LoadLayer(Loader& loader, const ModelConfig& config, const ShardPlan& plan, int rank, int64_t index,
                 LayerWeights* layer) {
  const std::string prefix = "blk." + std::to_string(index) + ".";
  const int64_t head_dim = config.head_dim;
  const Range query_heads = plan.query_heads(rank), kv_heads = plan.kv_heads[size_t(rank)];
  const Range ffn = plan.ffn_columns[size_t(rank)], hidden = {0, config.hidden_size};
  const auto q_rows = HeadRows(query_heads, head_dim, config.permuted_qk_rows);
  const auto k_rows = HeadRows(kv_heads, head_dim, config.permuted_qk_rows);
  const auto v_rows = RowsOf(Scale(kv_heads, head_dim));
  WINNOW_RETURN_IF_ERROR(loader.Vector(prefix + "attn_norm.weight", &layer->attention_norm));
  WINNOW_RETURN_IF_ERROR(loader.Vector(prefix + "ffn_norm.weight", &layer->ffn_norm));
  WINNOW_RETURN_IF_ERROR(loader.Matrix(prefix + "attn_q.weight", q_rows, hidden, &layer->q));
  WINNOW_RETURN_IF_ERROR(loader.Matrix(prefix + "attn_k.weight", k_rows, hidden, &layer->k));
  WINNOW_RETURN_IF_ERROR(loader.Matrix(prefix + "attn_v.weight", v_rows, hidden, &layer->v));
  if (config.qkv_bias) {
    WINNOW_RETURN_IF_ERROR(loader.Vector(prefix + "attn_q.bias", q_rows, &layer->q_bias));
    WINNOW_RETURN_IF_ERROR(loader.Vector(prefix + "attn_k.bias", k_rows, &layer->k_bias));
    WINNOW_RETURN_IF_ERROR(loader.Vector(prefix + "attn_v.bias", v_rows, &layer->v_bias));
  }
  if (config.qk_norm) {
    WINNOW_RETURN_IF_ERROR(loader.Vector(prefix + "attn_q_norm.weight", &layer->q_norm));
    WINNOW_RETURN_IF_ERROR(loader.Vector(prefix + "attn_k_norm.weight", &layer->k_norm));
  }
  WINNOW_RETURN_IF_ERROR(
      loader.Matrix(prefix + "attn_output.weight", RowsOf(hidden), Scale(query_heads, head_dim), &layer->output));
  WINNOW_RETURN_IF_ERROR(loader.Matrix(prefix + "ffn_gate.weight", RowsOf(ffn), hidden, &layer->gate));
  WINNOW_RETURN_IF_ERROR(loader.Matrix(prefix + "ffn_up.weight", RowsOf(ffn), hidden, &layer->up));
  return loader.Matrix(prefix + "ffn_down.weight", RowsOf(hidden), ffn, &layer->down);
}

}  // namespace

int64_t ModelWeights::bytes() const {
  int64_t sum = embedding->bytes() + final_norm.bytes() + (vocab_head ? vocab_head->bytes() : 0);
  for (const LayerWeights& layer : layers) {
    for (const Buffer* vector : {&layer.attention_norm, &layer.ffn_norm, &layer.q_bias, &layer.k_bias, &layer.v_bias,
                                 &layer.q_norm, &layer.k_norm}) {
      sum += vector->bytes();
    }
    for (const auto* weight : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) {
      sum += (*weight)->bytes();
    }
  }
  return sum;
}

ShardDims ShardDimsOf(const ModelConfig& config) {
  return {config.num_query_heads, config.num_kv_heads, config.head_dim, config.ffn_size, config.vocab_size};
}

Result<ModelWeights> LoadWeights(const TensorSource& source, const ModelConfig& config, const ShardPlan& plan, int rank,
                                 Backend& backend, const std::function<void(int64_t, int64_t)>& progress) {
  Loader loader(source, backend, progress);
  ModelWeights weights;
  const Range vocab = plan.vocab_rows[size_t(rank)], hidden = {0, config.hidden_size};
  WINNOW_RETURN_IF_ERROR(loader.Matrix("token_embd.weight", RowsOf(vocab), hidden, &weights.embedding));
  if (!config.tied_embeddings) {
    WINNOW_RETURN_IF_ERROR(loader.Matrix("output.weight", RowsOf(vocab), hidden, &weights.vocab_head));
  }
  WINNOW_RETURN_IF_ERROR(loader.Vector("output_norm.weight", &weights.final_norm));
  for (int64_t index = 0; index < config.num_layers; ++index) {
    WINNOW_RETURN_IF_ERROR(LoadLayer(loader, config, plan, rank, index, &weights.layers.emplace_back()));
  }
  return weights;
}

}  // namespace winnow
