// A Llama forward pass in the plainest double arithmetic, straight from the tensors of a GGUF file and sharing no code
// with model/, compute/ or kv/: the oracle for what the engine computes, evictions included. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/gguf.h"
#include "model/model_config.h"

namespace winnow {

// As streaming-llm evicts: the first `sink_tokens` positions and the newest others survive. budget 0: never.
struct NaiveEviction {
  int64_t budget = 0;
  int64_t interval = 0;
  int64_t sink_tokens = 0;
};

class NaiveLlama {
 public:
  NaiveLlama(const GgufFile& file, const ModelConfig& config);

  // Logits after every token of a text: [tokens][vocabulary].
  std::vector<std::vector<double>> Logits(const std::vector<int32_t>& tokens, const NaiveEviction& eviction) const;

 private:
  using Vector = std::vector<double>;
  struct Matrix {
    size_t columns = 0;
    Vector values;  // [rows][columns], in file order
  };
  // What one layer remembers of a text, by absolute position.
  struct Memory {
    std::vector<Vector> keys, values;
  };

  const Matrix& Get(const std::string& name) const { return tensors_.at(name); }
  static Vector Times(const Matrix& matrix, const Vector& x);
  Vector Norm(const Vector& x, const std::string& gain) const;
  // Turns every head's row pairs (2i, 2i + 1), as files of the llama family mean them.
  void Rotate(Vector& x, int64_t position) const;
  Vector Attend(const Vector& q, const Memory& memory, const std::vector<int64_t>& visible) const;

  ModelConfig config_;
  std::map<std::string, Matrix> tensors_;
};

}  // namespace winnow
