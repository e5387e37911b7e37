// A forward pass of Llama, Qwen2 and Qwen3 models in the plainest double arithmetic, straight from the tensors of a
// GGUF file and sharing no code with model/, compute/ or kv/: the oracle for what the engine computes, evictions
// included. One thread.
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

// KVzip's replay of a text: chunk by chunk, [first or next | the end of the chunk before | the chunk] is read again,
// and sees the first `sink_tokens` positions, the chunk and itself.
struct NaiveReplay {
  int64_t chunk_tokens = 0;
  std::vector<int32_t> first, next;
  int64_t sink_tokens = 0;
  bool weigh_updates = false;  // as KVzip+ does
};

class NaiveLlama {
 public:
  NaiveLlama(const GgufFile& file, const ModelConfig& config);

  // Logits after every token of a text: [tokens][vocabulary].
  std::vector<std::vector<double>> Logits(const std::vector<int32_t>& tokens, const NaiveEviction& eviction) const;

  // The scores of every position: [layer * KV heads + head][tokens].
  std::vector<std::vector<double>> ReplayScores(const std::vector<int32_t>& tokens, const NaiveReplay& replay) const;

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
  // What one token did in one layer.
  struct Paid {
    double input_length;          // of its attention input
    std::vector<Vector> weights;  // [query head][visible]
  };

  bool Has(const std::string& name) const { return tensors_.contains(name); }
  const Matrix& Get(const std::string& name) const { return tensors_.at(name); }
  static Vector Times(const Matrix& matrix, const Vector& x);
  Vector Norm(const Vector& x, const std::string& gain) const;
  // x W^T, plus the bias where the file has one, its heads normed where the file has a gain for them.
  Vector Project(const std::string& name, const Vector& x) const;
  // Radians per position of a head's pair, scaled.
  double Frequency(size_t pair) const;
  // Turns every head's row pairs: (2i, 2i + 1) in files of the llama family, (i, i + head_dim / 2) in others.
  void Rotate(Vector& x, int64_t position) const;
  Vector Attend(const Vector& q, const Memory& memory, const std::vector<int64_t>& visible,
                std::vector<Vector>* weights) const;
  // Reads the token of the next position and returns its hidden state. paid [layers], if it is not null.
  Vector Read(int32_t token, const std::vector<int64_t>& visible, std::vector<Memory>& memories,
              std::vector<Paid>* paid) const;
  // ||W_O^(head) v||: the output projection of a vector that holds v in the columns of this query head alone.
  double ProjectedLength(size_t layer, size_t query_head, const Vector& values) const;

  ModelConfig config_;
  std::map<std::string, Matrix> tensors_;
};

}  // namespace winnow
