// A tiny random model (tests/support/tiny_model.h) as a Hugging Face directory with the same weights, so that both
// formats can be compared and damaged directories made. Aborts the test program when it cannot write.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/tiny_model.h"

namespace winnow {

class HfDirectory {
 public:
  // spec.weights and spec.embeddings: F32 or BF16.
  explicit HfDirectory(const TinyModelSpec& spec);

  // To be changed before Write.
  nlohmann::json config, generation_config;
  struct Tensor {
    DType dtype;
    std::vector<int64_t> shape;  // slowest first
    std::vector<uint8_t> bytes;
  };
  std::map<std::string, Tensor> tensors;  // by Hugging Face's names
  bool add_tokenizer = true;

  // Makes the directory; num_shards 1: model.safetensors alone. Tensors go to the shards in turn.
  void Write(const std::string& directory, int num_shards) const;

 private:
  int64_t vocab_size_;
};

void WriteText(const std::string& path, const std::string& text);

}  // namespace winnow
