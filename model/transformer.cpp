#include "model/transformer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace winnow {

Transformer::Transformer(const ModelConfig& config, const ShardPlan& plan, ModelWeights weights, const KvLayout& kv,
                         Numerics numerics, Backend& backend, Communicator& communicator)
    : config_(config),
      plan_(plan),
      weights_(std::move(weights)),
      kv_(kv),
      numerics_(numerics),
      backend_(backend),
      communicator_(communicator),
      exact_sum_(backend, communicator),
      rotary_(config.rope_theta, config.head_dim, config.rope_scaling),
      local_q_columns_(plan.query_heads(communicator.rank()).size() * config.head_dim),
      local_kv_columns_(plan.kv_heads[size_t(communicator.rank())].size() * config.head_dim),
      local_ffn_columns_(plan.ffn_columns[size_t(communicator.rank())].size()) {
  WINNOW_CHECK(communicator.size() == plan.num_ranks);
}

Status Transformer::EnsureWorkspace(int64_t rows) {
  if (rows <= work_.rows) return OkStatus();
  const auto grow = [&](int64_t row_bytes, Buffer* buffer) {
    auto bigger = backend_.Allocate(rows * row_bytes);
    if (bigger.ok()) *buffer = std::move(bigger).value();
    return bigger.status();
  };
  const int64_t hidden = config_.hidden_size;
  WINNOW_RETURN_IF_ERROR(grow(4, &work_.ids));
  WINNOW_RETURN_IF_ERROR(grow(4, &work_.observe));
  WINNOW_RETURN_IF_ERROR(grow(4, &work_.query_rows));
  WINNOW_RETURN_IF_ERROR(grow(4, &work_.peak_scale));
  WINNOW_RETURN_IF_ERROR(grow(4, &work_.not_finite));
  WINNOW_RETURN_IF_ERROR(grow(4 * config_.head_dim, &work_.cos_sin));
  WINNOW_RETURN_IF_ERROR(grow(4 * hidden, &work_.hidden));
  WINNOW_RETURN_IF_ERROR(grow(4 * hidden, &work_.normed));
  WINNOW_RETURN_IF_ERROR(grow(4 * local_q_columns_, &work_.q));
  WINNOW_RETURN_IF_ERROR(grow(4 * local_kv_columns_, &work_.k));
  WINNOW_RETURN_IF_ERROR(grow(4 * local_kv_columns_, &work_.v));
  WINNOW_RETURN_IF_ERROR(grow(4 * local_q_columns_, &work_.attended));
  WINNOW_RETURN_IF_ERROR(grow(4 * local_ffn_columns_, &work_.gate));
  WINNOW_RETURN_IF_ERROR(grow(4 * local_ffn_columns_, &work_.up));
  if (numerics_ == Numerics::kExact) {
    WINNOW_RETURN_IF_ERROR(grow(8 * (hidden + 1), &work_.sums));
  } else {
    WINNOW_RETURN_IF_ERROR(grow(4 * hidden, &work_.float_sums));
  }
  work_.rows = rows;
  return OkStatus();
}

Status Transformer::UploadRows(const ForwardBatch& batch) {
  const int64_t rows = int64_t(batch.token_ids.size());
  WINNOW_RETURN_IF_ERROR(EnsureWorkspace(rows));
  std::vector<float> cos_sin;
  cos_sin.reserve(size_t(rows * config_.head_dim));
  for (int64_t position : batch.positions) {
    const auto row = rotary_.CosSin(position);
    cos_sin.insert(cos_sin.end(), row.begin(), row.end());
  }
  backend_.CopyToDevice(work_.ids.View(DType::kI32, {rows}), std::as_bytes(batch.token_ids));
  if (!batch.observe.empty()) {
    backend_.CopyToDevice(work_.observe.View(DType::kI32, {rows}), std::as_bytes(batch.observe));
  }
  if (!batch.query_rows.empty()) {
    const Tensor wanted = work_.query_rows.View(DType::kI32, {int64_t(batch.query_rows.size())});
    backend_.CopyToDevice(wanted, std::as_bytes(batch.query_rows));
  }
  backend_.CopyToDevice(View(work_.cos_sin, rows, config_.head_dim), std::as_bytes(std::span(cos_sin)));
  return OkStatus();
}

Status Transformer::Forward(const ForwardBatch& batch, ForwardResult* result) {
  const int64_t rows = int64_t(batch.token_ids.size());
  WINNOW_CHECK(rows > 0 && batch.kv->num_rows() == rows && batch.positions.size() == batch.token_ids.size());
  WINNOW_CHECK(!batch.stop_after_kv || batch.logit_rows.empty());
  WINNOW_CHECK(int64_t(batch.query_rows.size()) <= rows);
  if (std::any_of(batch.adapters.begin(), batch.adapters.end(), [](const Adapter* a) { return a != nullptr; })) {
    return InvalidArgument("an adapter was given for a row: this build has none");
  }
  WINNOW_RETURN_IF_ERROR(UploadRows(batch));
  EmbedRows(batch);
  result->queries.resize(batch.query_rows.size() * size_t(config_.num_layers * local_q_columns_));
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    AppendKv(batch, layer);
    if (!batch.query_rows.empty()) CopyQueries(batch, layer, result->queries);
    if (batch.stop_after_kv && layer == config_.num_layers - 1) break;
    Attend(batch, layer);
    FeedForward(weights_.layers[size_t(layer)], rows);
  }
  const Tensor hidden = View(work_.hidden, rows, config_.hidden_size);
  // A row that is not finite stays so to the end, whether or not its logits are wanted.
  const Tensor flags = work_.not_finite.View(DType::kI32, {rows});
  backend_.FlagNotFinite(hidden, flags);
  result->not_finite.resize(size_t(rows));
  backend_.CopyToHost(std::as_writable_bytes(std::span(result->not_finite)), flags);
  return Logits(batch, &result->logits);
}

void Transformer::EmbedRows(const ForwardBatch& batch) {
  const int64_t rows = int64_t(batch.token_ids.size());
  const Tensor hidden = View(work_.hidden, rows, config_.hidden_size);
  // A vocabulary row lives on one rank; the others add zero bits, so the sum is the owner's float, bit for bit.
  backend_.Embed(*weights_.embedding, vocab_rows().begin, work_.ids.View(DType::kI32, {rows}), hidden);
  communicator_.AllReduce(backend_, hidden.As(DType::kI32), ReduceOp::kSum);
  size_t next = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (batch.token_ids[size_t(row)] != ForwardBatch::kEmbedding) continue;
    WINNOW_CHECK(next + size_t(config_.hidden_size) <= batch.embeddings.size());
    backend_.CopyToDevice(hidden.Rows(row, 1),
                          std::as_bytes(batch.embeddings.subspan(next, size_t(config_.hidden_size))));
    next += size_t(config_.hidden_size);
  }
  WINNOW_CHECK(next == batch.embeddings.size());
}

void Transformer::AppendKv(const ForwardBatch& batch, int64_t layer_index) {
  const LayerWeights& layer = weights_.layers[size_t(layer_index)];
  const int64_t rows = batch.kv->num_rows(), hidden_size = config_.hidden_size, head_dim = config_.head_dim;
  const int64_t query_heads = local_q_columns_ / head_dim, kv_heads = local_kv_columns_ / head_dim;
  const Tensor normed = View(work_.normed, rows, hidden_size);
  backend_.RmsNorm(View(work_.hidden, rows, hidden_size), layer.attention_norm.View(DType::kF32, {hidden_size}),
                   config_.rms_epsilon, normed);
  const MatMulTarget targets[] = {{layer.q.get(), View(work_.q, rows, local_q_columns_)},
                                  {layer.k.get(), View(work_.k, rows, local_kv_columns_)},
                                  {layer.v.get(), View(work_.v, rows, local_kv_columns_)}};
  backend_.MatMul(normed, targets);
  if (config_.qkv_bias) {
    backend_.AddBias(layer.q_bias.View(DType::kF32, {local_q_columns_}), View(work_.q, rows, local_q_columns_));
    backend_.AddBias(layer.k_bias.View(DType::kF32, {local_kv_columns_}), View(work_.k, rows, local_kv_columns_));
    backend_.AddBias(layer.v_bias.View(DType::kF32, {local_kv_columns_}), View(work_.v, rows, local_kv_columns_));
  }
  if (config_.qk_norm) {
    const Tensor q = View(work_.q, rows * query_heads, head_dim), k = View(work_.k, rows * kv_heads, head_dim);
    backend_.RmsNorm(q, layer.q_norm.View(DType::kF32, {head_dim}), config_.rms_epsilon, q);
    backend_.RmsNorm(k, layer.k_norm.View(DType::kF32, {head_dim}), config_.rms_epsilon, k);
  }
  backend_.RopeAppend({.q = work_.q.View(DType::kF32, {rows, query_heads, head_dim}),
                       .k = work_.k.View(DType::kF32, {rows, kv_heads, head_dim}),
                       .v = work_.v.View(DType::kF32, {rows, kv_heads, head_dim}),
                       .cos_sin = View(work_.cos_sin, rows, head_dim),
                       .physical_slots = batch.kv->physical_slots(layer_index),
                       .pages = batch.pages,
                       .kv = kv_,
                       .q_scale = float(1.0 / std::sqrt(double(head_dim))),
                       .mass = batch.mass});
}

void Transformer::CopyQueries(const ForwardBatch& batch, int64_t layer_index, std::span<float> queries) {
  const int64_t wanted = int64_t(batch.query_rows.size());
  // Attention has not written its output yet: its buffer is free.
  const Tensor rows = View(work_.attended, wanted, local_q_columns_);
  backend_.GatherRows(View(work_.q, batch.kv->num_rows(), local_q_columns_),
                      work_.query_rows.View(DType::kI32, {wanted}), rows);
  const size_t layer_floats = size_t(wanted * local_q_columns_);
  backend_.CopyToHost(std::as_writable_bytes(queries.subspan(size_t(layer_index) * layer_floats, layer_floats)), rows);
}

Tensor Transformer::PeakScale(const ForwardBatch& batch, int64_t rows) {
  std::vector<float> scale(size_t(rows), 1.0f);
  if (batch.peaks_by_input) {
    // On the host: an op of its own would save a copy of 4 bytes a hidden value in passes that are rare.
    const size_t hidden_size = size_t(config_.hidden_size);
    std::vector<float> normed(size_t(rows) * hidden_size);
    backend_.CopyToHost(std::as_writable_bytes(std::span(normed)), View(work_.normed, rows, config_.hidden_size));
    for (size_t row = 0; row < scale.size(); ++row) {
      double sum = 0;
      for (size_t i = 0; i < hidden_size; ++i) {
        const double value = normed[row * hidden_size + i];
        sum += value * value;
      }
      const double reciprocal = std::min(1 / std::sqrt(sum), double(std::numeric_limits<float>::max()));
      scale[row] = sum > 0 ? float(reciprocal) : 0.0f;  // NaN fails too, infinity gives 0
    }
  }
  const Tensor on_device = work_.peak_scale.View(DType::kF32, {rows});
  backend_.CopyToDevice(on_device, std::as_bytes(std::span(scale)));
  return on_device;
}

void Transformer::Attend(const ForwardBatch& batch, int64_t layer_index) {
  const int64_t rows = batch.kv->num_rows(), head_dim = config_.head_dim, query_heads = local_q_columns_ / head_dim;
  const bool is_observed = !batch.observe.empty(), with_peaks = batch.peaks.data() != nullptr;
  backend_.Attention({.q = work_.q.View(DType::kF32, {rows, query_heads, head_dim}),
                      .out = work_.attended.View(DType::kF32, {rows, query_heads, head_dim}),
                      .page_table = batch.kv->page_table(layer_index),
                      .row_sequence = batch.kv->row_sequence(),
                      .visible = batch.kv->visible(layer_index),
                      .pages = batch.pages,
                      .kv = kv_,
                      .observe = is_observed ? work_.observe.View(DType::kI32, {rows}) : Tensor(),
                      .mass = is_observed ? batch.mass : Tensor(),
                      .peak_scale = with_peaks ? PeakScale(batch, rows) : Tensor(),
                      .peaks = with_peaks ? batch.peaks.At(layer_index) : Tensor()});
  // One segment per query head: fixed by the model, so that any split of heads adds the same integers.
  const Weight& output = *weights_.layers[size_t(layer_index)].output;
  AddProjection(View(work_.attended, rows, local_q_columns_), output, head_dim, rows);
}

void Transformer::FeedForward(const LayerWeights& layer, int64_t rows) {
  const int64_t hidden_size = config_.hidden_size;
  const Tensor normed = View(work_.normed, rows, hidden_size);
  const Tensor gate = View(work_.gate, rows, local_ffn_columns_), up = View(work_.up, rows, local_ffn_columns_);
  backend_.RmsNorm(View(work_.hidden, rows, hidden_size), layer.ffn_norm.View(DType::kF32, {hidden_size}),
                   config_.rms_epsilon, normed);
  const MatMulTarget targets[] = {{layer.gate.get(), gate}, {layer.up.get(), up}};
  backend_.MatMul(normed, targets);
  backend_.SiluMul(gate, up);
  AddProjection(gate, *layer.down, plan_.ffn_segment_columns, rows);
}

void Transformer::AddProjection(const Tensor& x, const Weight& weight, int64_t segment_columns, int64_t rows) {
  const Tensor hidden = View(work_.hidden, rows, config_.hidden_size);
  if (numerics_ == Numerics::kExact) {
    const Tensor sums = work_.sums.View(DType::kI64, {rows, config_.hidden_size + 1});
    exact_sum_.MatMulInto(x, weight, segment_columns, sums, hidden);
    return;
  }
  const Tensor sums = View(work_.float_sums, rows, config_.hidden_size);
  const MatMulTarget target{&weight, sums};
  backend_.MatMul(x, {&target, 1});
  communicator_.FastFloatSum(backend_, sums);
  backend_.Add(sums, hidden);
}

Status Transformer::ReadOutputColumns(int64_t layer, int64_t local_query_head, std::vector<float>* columns) {
  const int64_t head_dim = config_.head_dim, hidden_size = config_.hidden_size;
  std::vector<float> units(size_t(head_dim * local_q_columns_), 0.0f);
  for (int64_t i = 0; i < head_dim; ++i) units[size_t(i * local_q_columns_ + local_query_head * head_dim + i)] = 1;
  columns->resize(size_t(head_dim * hidden_size));
  WINNOW_ASSIGN_OR_RETURN(const Buffer input, backend_.Allocate(4 * int64_t(units.size())));
  WINNOW_ASSIGN_OR_RETURN(const Buffer output, backend_.Allocate(4 * int64_t(columns->size())));
  const Tensor x = View(input, head_dim, local_q_columns_), y = View(output, head_dim, hidden_size);
  backend_.CopyToDevice(x, std::as_bytes(std::span(units)));
  const MatMulTarget target{weights_.layers[size_t(layer)].output.get(), y};
  backend_.MatMul(x, {&target, 1});
  backend_.CopyToHost(std::as_writable_bytes(std::span(*columns)), y);
  return OkStatus();
}

Status Transformer::Logits(const ForwardBatch& batch, std::vector<float>* logits) {
  const int64_t wanted = int64_t(batch.logit_rows.size()), rows = batch.kv->num_rows();
  const int64_t hidden_size = config_.hidden_size, vocab = vocab_rows().size();
  logits->resize(size_t(wanted * vocab));
  if (wanted == 0) return OkStatus();
  // Sized per call: few rows as a rule, all of them when logits are compared.
  WINNOW_ASSIGN_OR_RETURN(const Buffer indices, backend_.Allocate(4 * wanted));
  WINNOW_ASSIGN_OR_RETURN(const Buffer chosen, backend_.Allocate(4 * wanted * hidden_size));
  WINNOW_ASSIGN_OR_RETURN(const Buffer out, backend_.Allocate(4 * wanted * vocab));
  const Tensor index = indices.View(DType::kI32, {wanted}), x = View(chosen, wanted, hidden_size);
  const Tensor y = View(out, wanted, vocab);
  backend_.CopyToDevice(index, std::as_bytes(batch.logit_rows));
  backend_.GatherRows(View(work_.hidden, rows, hidden_size), index, x);
  backend_.RmsNorm(x, weights_.final_norm.View(DType::kF32, {hidden_size}), config_.rms_epsilon, x);
  const MatMulTarget target{&weights_.head(), y};
  backend_.MatMul(x, {&target, 1});
  backend_.CopyToHost(std::as_writable_bytes(std::span(*logits)), y);
  return OkStatus();
}

}  // namespace winnow
