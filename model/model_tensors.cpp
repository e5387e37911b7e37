#include "model/model_tensors.h"

#include <set>
#include <string>

namespace winnow {
namespace {

class TensorChecker {
 public:
  explicit TensorChecker(const TensorSource& source) : source_(source) {}

  // `shape` in GGUF order, columns first.
  Status Expect(const std::string& name, const std::vector<int64_t>& shape) {
    const TensorInfo* tensor = source_.Find(name);
    if (tensor == nullptr) {
      return source_.Bad(Named(name) + ": expected shape " + ShapeText(shape) + ", found no such tensor");
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

  Status ExpectNoOthers() const {
    for (const TensorInfo* tensor : source_.tensors()) {
      if (seen_.contains(tensor->name)) continue;
      if (tensor->name.starts_with("rope_freqs")) {
        return source_.Bad(Named(tensor->name) + ": expected no RoPE scaling, found the factors of type llama3");
      }
      if (tensor->name.ends_with(".bias")) {
        return source_.Bad(Named(tensor->name) + ": expected a model without biases");
      }
      return source_.Bad(Named(tensor->name) + ": winnow does not know what this tensor is for");
    }
    return OkStatus();
  }

 private:
  std::string Named(std::string_view name) const { return "tensor " + source_.NameInFile(name); }

  const TensorSource& source_;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace

Status CheckModelTensors(const TensorSource& source, ModelConfig* config) {
  const int64_t hidden = config->hidden_size;
  const int64_t ffn = config->ffn_size;
  const int64_t q_rows = int64_t(config->num_query_heads) * config->head_dim;
  const int64_t kv_rows = int64_t(config->num_kv_heads) * config->head_dim;
  TensorChecker checker(source);
  WINNOW_RETURN_IF_ERROR(checker.Expect("token_embd.weight", {hidden, config->vocab_size}));
  for (int layer = 0; layer < config->num_layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    WINNOW_RETURN_IF_ERROR(checker.Expect(block + "attn_norm.weight", {hidden}));
    WINNOW_RETURN_IF_ERROR(checker.Expect(block + "attn_q.weight", {hidden, q_rows}));
    WINNOW_RETURN_IF_ERROR(checker.Expect(block + "attn_k.weight", {hidden, kv_rows}));
    WINNOW_RETURN_IF_ERROR(checker.Expect(block + "attn_v.weight", {hidden, kv_rows}));
    WINNOW_RETURN_IF_ERROR(checker.Expect(block + "attn_output.weight", {q_rows, hidden}));
    WINNOW_RETURN_IF_ERROR(checker.Expect(block + "ffn_norm.weight", {hidden}));
    WINNOW_RETURN_IF_ERROR(checker.Expect(block + "ffn_gate.weight", {hidden, ffn}));
    WINNOW_RETURN_IF_ERROR(checker.Expect(block + "ffn_up.weight", {hidden, ffn}));
    WINNOW_RETURN_IF_ERROR(checker.Expect(block + "ffn_down.weight", {ffn, hidden}));
  }
  WINNOW_RETURN_IF_ERROR(checker.Expect("output_norm.weight", {hidden}));
  config->tied_embeddings = source.Find("output.weight") == nullptr;
  if (!config->tied_embeddings) {
    WINNOW_RETURN_IF_ERROR(checker.Expect("output.weight", {hidden, config->vocab_size}));
  }
  return checker.ExpectNoOthers();
}

}  // namespace winnow
