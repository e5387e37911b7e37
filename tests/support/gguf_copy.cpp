#include "tests/support/gguf_copy.h"

#include <cmath>
#include <numeric>
#include <string>

#include "base/check.h"
#include "tests/support/gguf_writer.h"

namespace winnow {
namespace {

void AddRope(const ModelConfig& config, GgufWriter* writer) {
  const RopeScaling& scaling = config.rope_scaling;
  const std::string prefix = config.architecture + ".rope.";
  writer->AddFloat32(prefix + "freq_base", config.rope_theta);
  writer->AddUint32(prefix + "dimension_count", uint32_t(config.head_dim));
  if (scaling.type == RopeScaling::Type::kLinear || scaling.type == RopeScaling::Type::kYarn) {
    const bool is_yarn = scaling.type == RopeScaling::Type::kYarn;
    writer->AddString(prefix + "scaling.type", is_yarn ? "yarn" : "linear");
    writer->AddFloat32(prefix + "scaling.factor", float(scaling.factor));
    if (is_yarn) {
      writer->AddUint32(prefix + "scaling.original_context_length", uint32_t(scaling.original_context));
      const double usual = 0.1 * std::log(scaling.factor) + 1;
      if (std::abs(scaling.attention_factor - usual) > 1e-12) {
        writer->AddFloat32(prefix + "scaling.attn_factor", float(scaling.attention_factor / usual));
      }
    }
  }
  if (scaling.type != RopeScaling::Type::kLlama3) return;
  std::vector<float> factors;  // what each frequency is divided by
  for (int i = 0; i < config.head_dim / 2; ++i) {
    const double frequency = std::pow(double(config.rope_theta), -2.0 * i / config.head_dim);
    const double wave = 2 * 3.14159265358979323846 / frequency, context = double(scaling.original_context);
    const double smooth =
        (context / wave - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
    double factor = 1;
    if (smooth < 0) factor = scaling.factor;
    if (smooth >= 0 && smooth < 1) factor = 1 / ((1 - smooth) / scaling.factor + smooth);
    factors.push_back(float(factor));
  }
  writer->AddFloatTensor("rope_freqs.weight", {config.head_dim / 2}, factors);
}

// Row 2i + s of a head is row s * head_dim / 2 + i of the source.
std::vector<int64_t> RowsInFile(int64_t rows, int64_t head_dim, bool permuted) {
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), int64_t(0));
  if (!permuted) return order;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t r = row % head_dim;
    order[size_t(row)] = row - r + r % 2 * (head_dim / 2) + r / 2;
  }
  return order;
}

}  // namespace

std::vector<uint8_t> GgufCopyOf(const TensorSource& source, const ModelConfig& config) {
  WINNOW_CHECK(!config.permuted_qk_rows);
  GgufWriter writer;
  const std::string prefix = config.architecture + ".";
  writer.AddString("general.architecture", config.architecture);
  writer.AddUint32(prefix + "block_count", uint32_t(config.num_layers));
  writer.AddUint32(prefix + "context_length", uint32_t(config.max_context));
  writer.AddUint32(prefix + "embedding_length", uint32_t(config.hidden_size));
  writer.AddUint32(prefix + "feed_forward_length", uint32_t(config.ffn_size));
  writer.AddUint32(prefix + "attention.head_count", uint32_t(config.num_query_heads));
  writer.AddUint32(prefix + "attention.head_count_kv", uint32_t(config.num_kv_heads));
  writer.AddUint32(prefix + "attention.key_length", uint32_t(config.head_dim));
  writer.AddUint32(prefix + "attention.value_length", uint32_t(config.head_dim));
  writer.AddFloat32(prefix + "attention.layer_norm_rms_epsilon", config.rms_epsilon);
  AddRope(config, &writer);
  for (const TensorInfo* tensor : source.tensors()) {
    const bool is_qk = tensor->name.ends_with("attn_q.weight") || tensor->name.ends_with("attn_k.weight");
    const int64_t rows = tensor->shape.size() > 1 ? tensor->shape[1] : 1;
    const TensorRows part =
        source.Rows(*tensor, RowsInFile(rows, config.head_dim, is_qk && config.architecture == "llama")).value();
    std::vector<uint8_t> bytes;
    for (const int64_t row : part.rows) {
      const auto* from = reinterpret_cast<const uint8_t*>(part.data.data()) + row * (tensor->num_bytes / rows);
      bytes.insert(bytes.end(), from, from + tensor->num_bytes / rows);
    }
    writer.AddTensor(tensor->name, tensor->dtype, tensor->shape, std::move(bytes));
  }
  return writer.Build();
}

}  // namespace winnow
