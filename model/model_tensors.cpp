#include "model/model_tensors.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>

namespace winnow {
namespace {

class TensorChecker {
 public:
  explicit TensorChecker(const TensorSource& source) : source_(source) {}

  // `shape` in GGUF order, columns first.
  Status Expect(const std::string& name, const std::vector<int64_t>& shape) {
    const TensorInfo* tensor = source_.Find(name);
    if (tensor == nullptr) {
      missing_.push_back({name, shape});
      return OkStatus();
    }
    if (tensor->shape != shape) {
      return source_.Bad(Named(name) + ": expected shape " + ShapeText(shape) + ", found " + ShapeText(tensor->shape));
    }
    if (tensor->dtype == DType::kI32 || tensor->dtype == DType::kI64) {
      return source_.Bad(Named(name) + ": expected weights, found integers of type " +
                         std::string(Name(tensor->dtype)));
    }
    seen_.insert(name);
    return OkStatus();
  }

  Status ExpectNoneMissing() const {
    if (missing_.empty()) return OkStatus();
    const auto& [name, shape] = missing_.front();
    if (missing_.size() == 1) {
      return source_.Bad(Named(name) + ": expected shape " + ShapeText(shape) + ", found no such tensor");
    }
    constexpr size_t kShown = 8;
    std::string names;
    for (size_t i = 0; i < std::min(kShown, missing_.size()); ++i) names += " " + source_.NameInFile(missing_[i].name);
    return source_.Bad(std::to_string(missing_.size()) + " tensors are missing:" + names +
                       (missing_.size() > kShown ? " ..." : ""));
  }

  Status ExpectNoOthers() const {
    for (const TensorInfo* tensor : source_.tensors()) {
      if (seen_.contains(tensor->name)) continue;
      if (tensor->name.ends_with(".bias")) {
        return source_.Bad(Named(tensor->name) + ": expected no bias but those of q, k and v in qwen2 models");
      }
      return source_.Bad(Named(tensor->name) + ": winnow does not know what this tensor is for");
    }
    return OkStatus();
  }

 private:
  std::string Named(std::string_view name) const { return "tensor " + source_.NameInFile(name); }

  const TensorSource& source_;
  std::vector<NamedShape> missing_;
  std::set<std::string, std::less<>> seen_;
};

// rope_freqs.weight, whose shape was checked: what each frequency is divided by.
Status ReadRopeFactors(const TensorSource& source, RopeScaling* scaling) {
  WINNOW_ASSIGN_OR_RETURN(const TensorInfo* tensor, source.Get("rope_freqs.weight"));
  if (scaling->type != RopeScaling::Type::kNone) {
    return source.Bad("tensor rope_freqs.weight: expected none beside another RoPE scaling");
  }
  if (tensor->dtype != DType::kF32) {
    return source.Bad("tensor rope_freqs.weight: expected F32, found " + std::string(Name(tensor->dtype)));
  }
  WINNOW_ASSIGN_OR_RETURN(const TensorRows row, source.Rows(*tensor, {0}));
  scaling->type = RopeScaling::Type::kFactors;
  scaling->factors.resize(size_t(tensor->shape[0]));
  std::memcpy(scaling->factors.data(), row.data.data() + row.rows[0] * tensor->num_bytes, size_t(tensor->num_bytes));
  for (const float factor : scaling->factors) {
    if (factor >= 1e-6f && factor <= 1e6f) continue;
    return source.Bad("tensor rope_freqs.weight: expected factors of 1e-6 to 1e6, found " + std::to_string(factor));
  }
  return OkStatus();
}

}  // namespace

std::vector<NamedShape> TensorsOf(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, ffn = config.ffn_size, vocab = config.vocab_size;
  const int64_t q_rows = int64_t(config.num_query_heads) * config.head_dim;
  const int64_t kv_rows = int64_t(config.num_kv_heads) * config.head_dim;
  std::vector<NamedShape> tensors = {{"token_embd.weight", {hidden, vocab}}};
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    const auto add = [&](const char* name, std::vector<int64_t> shape) {
      tensors.push_back({block + name, std::move(shape)});
    };
    add("attn_norm.weight", {hidden});
    add("attn_q.weight", {hidden, q_rows});
    add("attn_k.weight", {hidden, kv_rows});
    add("attn_v.weight", {hidden, kv_rows});
    if (config.qkv_bias) {
      add("attn_q.bias", {q_rows});
      add("attn_k.bias", {kv_rows});
      add("attn_v.bias", {kv_rows});
    }
    if (config.qk_norm) {
      add("attn_q_norm.weight", {config.head_dim});
      add("attn_k_norm.weight", {config.head_dim});
    }
    add("attn_output.weight", {q_rows, hidden});
    add("ffn_norm.weight", {hidden});
    add("ffn_gate.weight", {hidden, ffn});
    add("ffn_up.weight", {hidden, ffn});
    add("ffn_down.weight", {ffn, hidden});
  }
  tensors.push_back({"output_norm.weight", {hidden}});
  if (!config.tied_embeddings) tensors.push_back({"output.weight", {hidden, vocab}});
  return tensors;
}

Status CheckModelTensors(const TensorSource& source, ModelConfig* config) {
  config->tied_embeddings = source.Find("output.weight") == nullptr;
  TensorChecker checker(source);
  for (const NamedShape& tensor : TensorsOf(*config)) {
    WINNOW_RETURN_IF_ERROR(checker.Expect(tensor.name, tensor.shape));
  }
  WINNOW_RETURN_IF_ERROR(checker.ExpectNoneMissing());
  if (source.Find("rope_freqs.weight") != nullptr) {
    WINNOW_RETURN_IF_ERROR(checker.Expect("rope_freqs.weight", {config->head_dim / 2}));
    WINNOW_RETURN_IF_ERROR(ReadRopeFactors(source, &config->rope_scaling));
  }
  return checker.ExpectNoOthers();
}

}  // namespace winnow
