// The weights of a Hugging Face directory under GGUF's names. Owned by the checkpoint; immutable, any thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/sharded_safetensors.h"
#include "model/tensor_source.h"

namespace winnow {

class HfWeights : public TensorSource {
 public:
  // `directory` is for messages; `tied`: tie_word_embeddings of config.json, which decides about lm_head.weight:
  //   tied, no head        the embedding serves
  //   tied, the same head  the embedding serves, the copy is not read
  //   tied, another head   BadFile: config.json and weights contradict each other
  //   not tied, no head    BadFile
  // BadFile also for a weight that is neither F32, F16 nor BF16 or has more than two dimensions, and, with all names,
  // for tensors that no such model has.
  static Result<HfWeights> Make(ShardedSafetensors files, const std::string& directory, bool tied);

  const ShardedSafetensors& files() const { return files_; }

  const TensorInfo* Find(std::string_view name) const override;
  std::vector<const TensorInfo*> tensors() const override;
  Result<TensorRows> Rows(const TensorInfo& tensor, std::vector<int64_t> rows) const override;
  void Release(const TensorInfo& tensor) const override;
  std::string NameInFile(std::string_view name) const override;
  Status Bad(const std::string& message) const override { return BadFile(directory_ + ": " + message); }

 private:
  HfWeights(ShardedSafetensors files, std::string directory)
      : files_(std::move(files)), directory_(std::move(directory)) {}
  Status AddTensors();
  Status CheckHead(bool tied);
  const ShardedSafetensors::Tensor& InFile(const TensorInfo& tensor) const;

  ShardedSafetensors files_;
  std::string directory_;
  // By GGUF's name.
  std::map<std::string, TensorInfo, std::less<>> tensors_;
};

}  // namespace winnow
