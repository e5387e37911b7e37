#include "model/model_tensors.h"

#include <set>
#include <string>

namespace winnow {
namespace {

class TensorChecker {
 public:
  explicit TensorChecker(const GgufFile& file) : file_(file) {}

  // `shape` in GGUF order, columns first.
  Status Expect(const std::string& name, const std::vector<int64_t>& shape) {
    const GgufTensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr) {
      return file_.Bad("tensor " + name + ": expected shape " + ShapeText(shape) + ", found no such tensor");
    }
    if (tensor->shape != shape) {
      return file_.Bad("tensor " + name + ": expected shape " + ShapeText(shape) + ", found " +
                       ShapeText(tensor->shape));
    }
    if (tensor->dtype == DType::kI32 || tensor->dtype == DType::kI64) {
      return file_.Bad("tensor " + name + ": expected weights, found integers of type " +
                       std::string(Name(tensor->dtype)));
    }
    seen_.insert(name);
    return OkStatus();
  }

  Status ExpectNoOthers() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (seen_.contains(tensor.name)) continue;
      if (tensor.name.starts_with("rope_freqs")) {
        return file_.Bad("tensor " + tensor.name + ": expected no RoPE scaling, found the factors of type llama3");
      }
      if (tensor.name.ends_with(".bias")) {
        return file_.Bad("tensor " + tensor.name + ": expected a model without biases");
      }
      return file_.Bad("tensor " + tensor.name + ": winnow does not know what this tensor is for");
    }
    return OkStatus();
  }

 private:
  const GgufFile& file_;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace

Status CheckModelTensors(const GgufFile& file, ModelConfig* config) {
  const int64_t hidden = config->hidden_size;
  const int64_t ffn = config->ffn_size;
  const int64_t q_rows = int64_t(config->num_query_heads) * config->head_dim;
  const int64_t kv_rows = int64_t(config->num_kv_heads) * config->head_dim;
  TensorChecker checker(file);
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
  config->tied_embeddings = file.FindTensor("output.weight") == nullptr;
  if (!config->tied_embeddings) {
    WINNOW_RETURN_IF_ERROR(checker.Expect("output.weight", {hidden, config->vocab_size}));
  }
  return checker.ExpectNoOthers();
}

}  // namespace winnow
