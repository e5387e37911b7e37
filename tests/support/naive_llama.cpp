#include "tests/support/naive_llama.h"

#include <algorithm>
#include <cmath>

#include "compute/weight_blocks.h"

namespace winnow {

NaiveLlama::NaiveLlama(const GgufFile& file, const ModelConfig& config) : config_(config) {
  for (const GgufTensor& tensor : file.gguf_tensors()) {
    if (tensor.name == "rope_freqs.weight") continue;  // config has them
    const int64_t rows = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
    const int64_t row_bytes = tensor.num_bytes / rows;
    std::vector<float> row(static_cast<size_t>(tensor.shape[0]));
    Matrix& matrix = tensors_[tensor.name];
    matrix.columns = row.size();
    for (int64_t r = 0; r < rows; ++r) {
      const auto* bytes = reinterpret_cast<const std::byte*>(tensor.data) + r * row_bytes;
      DequantiseRow(tensor.dtype, bytes, 0, tensor.shape[0], row.data());
      matrix.values.insert(matrix.values.end(), row.begin(), row.end());
    }
  }
}

NaiveLlama::Vector NaiveLlama::Times(const Matrix& matrix, const Vector& x) {
  Vector y(matrix.values.size() / matrix.columns, 0.0);
  for (size_t r = 0; r < y.size(); ++r) {
    for (size_t c = 0; c < matrix.columns; ++c) y[r] += matrix.values[r * matrix.columns + c] * x[c];
  }
  return y;
}

NaiveLlama::Vector NaiveLlama::Norm(const Vector& x, const std::string& gain) const {
  double sum = 0;
  for (double value : x) sum += value * value;
  const double scale = 1 / std::sqrt(sum / double(x.size()) + double(config_.rms_epsilon));
  Vector y = x;
  for (size_t i = 0; i < y.size(); ++i) y[i] *= scale * Get(gain).values[i];
  return y;
}

NaiveLlama::Vector NaiveLlama::Project(const std::string& name, const Vector& x) const {
  Vector y = Times(Get(name + ".weight"), x);
  if (Has(name + ".bias")) {
    for (size_t i = 0; i < y.size(); ++i) y[i] += Get(name + ".bias").values[i];
  }
  if (!Has(name + "_norm.weight")) return y;
  Vector normed;
  for (auto head = y.begin(); head != y.end(); head += config_.head_dim) {
    const Vector one = Norm(Vector(head, head + config_.head_dim), name + "_norm.weight");
    normed.insert(normed.end(), one.begin(), one.end());
  }
  return normed;
}

double NaiveLlama::Frequency(size_t pair) const {
  const RopeScaling& scaling = config_.rope_scaling;
  const double theta = double(config_.rope_theta), dims = double(config_.head_dim), pi = std::acos(-1.0);
  const double plain = 1 / std::pow(theta, 2 * double(pair) / dims), context = double(scaling.original_context);
  const double wave = 2 * pi / plain;  // positions for a whole turn
  switch (scaling.type) {
    case RopeScaling::Type::kNone:
      return plain;
    case RopeScaling::Type::kLinear:
      return plain / scaling.factor;
    case RopeScaling::Type::kFactors:
      return plain / double(scaling.factors[pair]);
    case RopeScaling::Type::kLlama3: {
      const double shortest = context / scaling.high_freq_factor, longest = context / scaling.low_freq_factor;
      if (wave <= shortest) return plain;
      if (wave >= longest) return plain / scaling.factor;
      const double share = (1 / wave - 1 / longest) / (1 / shortest - 1 / longest);
      return plain * (share + (1 - share) / scaling.factor);
    }
    case RopeScaling::Type::kYarn: {
      const auto pair_that_turns = [&](double times) {  // within the original context
        return std::log(context / (2 * pi * times)) / std::log(theta) * dims / 2;
      };
      const double begin = std::max(0.0, std::floor(pair_that_turns(scaling.beta_fast)));
      const double end = std::min(dims - 1, std::ceil(pair_that_turns(scaling.beta_slow)));
      if (double(pair) <= begin) return plain;
      if (double(pair) >= end) return plain / scaling.factor;
      const double share = (double(pair) - begin) / (end - begin);
      return plain * (1 - share + share / scaling.factor);
    }
  }
  return 0;
}

void NaiveLlama::Rotate(Vector& x, int64_t position) const {
  const size_t head_dim = size_t(config_.head_dim), half = head_dim / 2;
  const bool is_yarn = config_.rope_scaling.type == RopeScaling::Type::kYarn;
  const double size = is_yarn ? config_.rope_scaling.attention_factor : 1;
  for (size_t head = 0; head < x.size(); head += head_dim) {
    for (size_t i = 0; i < half; ++i) {
      double& first = x[head + (config_.permuted_qk_rows ? 2 * i : i)];
      double& second = x[head + (config_.permuted_qk_rows ? 2 * i + 1 : i + half)];
      const double angle = double(position) * Frequency(i), a = first, b = second;
      first = size * (a * std::cos(angle) - b * std::sin(angle));
      second = size * (a * std::sin(angle) + b * std::cos(angle));
    }
  }
}

NaiveLlama::Vector NaiveLlama::Attend(const Vector& q, const Memory& memory, const std::vector<int64_t>& visible,
                                      std::vector<Vector>* weights) const {
  const size_t head_dim = size_t(config_.head_dim), group = size_t(config_.num_query_heads / config_.num_kv_heads);
  Vector out(q.size(), 0.0);
  for (size_t head = 0; head < size_t(config_.num_query_heads); ++head) {
    const size_t at = head * head_dim, kv_at = head / group * head_dim;
    double sum = 0;
    Vector& paid = weights->emplace_back();
    for (int64_t position : visible) {
      double score = 0;
      for (size_t d = 0; d < head_dim; ++d) score += q[at + d] * memory.keys[size_t(position)][kv_at + d];
      const double weight = std::exp(score / std::sqrt(double(head_dim)));
      sum += weight;
      paid.push_back(weight);
      for (size_t d = 0; d < head_dim; ++d) out[at + d] += weight * memory.values[size_t(position)][kv_at + d];
    }
    for (size_t d = 0; d < head_dim; ++d) out[at + d] /= sum;
    for (double& weight : paid) weight /= sum;
  }
  return out;
}

NaiveLlama::Vector NaiveLlama::Read(int32_t token, const std::vector<int64_t>& visible, std::vector<Memory>& memories,
                                    std::vector<Paid>* paid) const {
  const int64_t position = int64_t(memories[0].keys.size());
  const Matrix& embedding = Get("token_embd.weight");
  const auto row = embedding.values.begin() + int64_t(token) * int64_t(embedding.columns);
  Vector hidden(row, row + int64_t(embedding.columns));
  const auto add = [&](const Vector& x) {
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] += x[i];
  };
  for (size_t layer = 0; layer < memories.size(); ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    Vector x = Norm(hidden, prefix + "attn_norm.weight");
    double squared = 0;
    for (double value : x) squared += value * value;
    Vector q = Project(prefix + "attn_q", x), k = Project(prefix + "attn_k", x);
    Rotate(q, position);
    Rotate(k, position);
    memories[layer].keys.push_back(k);
    memories[layer].values.push_back(Project(prefix + "attn_v", x));
    std::vector<Vector> weights;
    add(Times(Get(prefix + "attn_output.weight"), Attend(q, memories[layer], visible, &weights)));
    if (paid != nullptr) paid->push_back({std::sqrt(squared), weights});
    x = Norm(hidden, prefix + "ffn_norm.weight");
    Vector gate = Times(Get(prefix + "ffn_gate.weight"), x);
    const Vector up = Times(Get(prefix + "ffn_up.weight"), x);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    add(Times(Get(prefix + "ffn_down.weight"), gate));
  }
  return hidden;
}

std::vector<std::vector<double>> NaiveLlama::Logits(const std::vector<int32_t>& tokens,
                                                    const NaiveEviction& eviction) const {
  std::vector<std::vector<double>> all;
  std::vector<Memory> memories(static_cast<size_t>(config_.num_layers));
  std::vector<int64_t> visible;  // positions, ascending; the same for all heads
  for (size_t position = 0; position < tokens.size(); ++position) {
    visible.push_back(int64_t(position));
    const Vector hidden = Read(tokens[position], visible, memories, nullptr);
    all.push_back(Times(Get(config_.tied_embeddings ? "token_embd.weight" : "output.weight"),
                        Norm(hidden, "output_norm.weight")));
    if (eviction.budget > 0 && int64_t(visible.size()) == eviction.budget + eviction.interval) {
      visible.erase(visible.begin() + eviction.sink_tokens, visible.begin() + eviction.sink_tokens + eviction.interval);
    }
  }
  return all;
}

double NaiveLlama::ProjectedLength(size_t layer, size_t query_head, const Vector& values) const {
  const size_t head_dim = size_t(config_.head_dim), group = size_t(config_.num_query_heads / config_.num_kv_heads);
  Vector x(size_t(config_.num_query_heads) * head_dim, 0.0);
  for (size_t d = 0; d < head_dim; ++d) x[query_head * head_dim + d] = values[query_head / group * head_dim + d];
  double squared = 0;
  for (double y : Times(Get("blk." + std::to_string(layer) + ".attn_output.weight"), x)) squared += y * y;
  return std::sqrt(squared);
}

std::vector<std::vector<double>> NaiveLlama::ReplayScores(const std::vector<int32_t>& tokens,
                                                          const NaiveReplay& replay) const {
  std::vector<Memory> context(static_cast<size_t>(config_.num_layers));
  std::vector<int64_t> all;
  for (int32_t token : tokens) {
    all.push_back(int64_t(all.size()));
    Read(token, all, context, nullptr);
  }
  const size_t kv_heads = size_t(config_.num_kv_heads), group = size_t(config_.num_query_heads) / kv_heads;
  std::vector<std::vector<double>> scores(context.size() * kv_heads, Vector(tokens.size(), 0.0));
  for (size_t begin = 0; begin < tokens.size(); begin += size_t(replay.chunk_tokens)) {
    const size_t end = std::min(tokens.size(), begin + size_t(replay.chunk_tokens));
    std::vector<int32_t> input = begin == 0 ? replay.first : replay.next;
    for (size_t i = begin - std::min({begin, size_t(replay.chunk_tokens), size_t(8)}); i < end; ++i) {
      input.push_back(tokens[i]);
    }
    std::vector<int64_t> visible;
    for (size_t i = 0; i < end; ++i) {
      if (i < size_t(replay.sink_tokens) || i >= begin) visible.push_back(int64_t(i));
    }
    const size_t num_cached = visible.size();
    std::vector<Memory> memories = context;
    for (int32_t token : input) {
      visible.push_back(int64_t(memories[0].keys.size()));
      std::vector<Paid> paid;
      Read(token, visible, memories, &paid);
      for (size_t layer = 0; layer < paid.size(); ++layer) {
        for (size_t head = 0; head < kv_heads * group; ++head) {
          for (size_t i = 0; i < num_cached; ++i) {
            const size_t position = size_t(visible[i]);
            if (position < begin) continue;
            double weight = paid[layer].weights[head][i];
            if (replay.weigh_updates) {
              weight *= ProjectedLength(layer, head, context[layer].values[position]) / paid[layer].input_length;
            }
            double& score = scores[layer * kv_heads + head / group][position];
            score = std::max(score, weight);
          }
        }
      }
    }
  }
  return scores;
}

}  // namespace winnow
