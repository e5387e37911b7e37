// Weights made of a model's sizes and the counter-based generator instead of a file (--load-format dummy): what a model
// costs can be measured, and its arithmetic checked, where nobody has its weights. Immutable, any thread.
//
// What is made (docs/models.md says it for those who make the same numbers elsewhere). Element i of a tensor, counting
// row by row, has u = (2 (b >> 9) + 1) / 2^23 - 1, in (-1, 1) and exact in float, where b is word i mod 4 of Philox4x32
// with key = FNV-1a-64 of the tensor's GGUF name and counter {7, low 32 bits of i / 4, high 32 bits of i / 4, 0}.
// Its value is, in float, then rounded to the dtype (nearest even):
//   token_embd.weight   u
//   other matrices      s u, s = float(sqrt(3 / columns)): outputs have about the size of inputs, so that activations
//                       grow by a residual's share a layer, not by a factor
//   norms               1 + 0.1 u (the product rounded first)
//   biases              0.1 u
// A row depends on nothing but its own indices, so each rank makes its own rows, with the same bits for any number of
// ranks. Rows are in half-split order: nothing is permuted. rope_freqs.weight is never there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/model_config.h"
#include "model/tensor_source.h"

namespace winnow {

class DummyWeights : public TensorSource {
 public:
  // dtype: kF32, kF16 or kBF16, of matrices and vectors. The tensors are those that CheckModelTensors asks for, with a
  // head of its own unless config says tied_embeddings. `path` (of the config.json) is for messages. Makes no weights
  // yet.
  DummyWeights(const ModelConfig& config, DType dtype, std::string path);

  const TensorInfo* Find(std::string_view name) const override;
  std::vector<const TensorInfo*> tensors() const override;
  Result<TensorRows> Rows(const TensorInfo& tensor, std::vector<int64_t> rows) const override;
  Status Bad(const std::string& message) const override { return BadFile(path_ + ": " + message); }

 private:
  void Add(const std::string& name, std::vector<int64_t> shape);

  const DType dtype_;
  const std::string path_;
  std::vector<std::string> order_;
  std::map<std::string, TensorInfo, std::less<>> tensors_;
};

}  // namespace winnow
