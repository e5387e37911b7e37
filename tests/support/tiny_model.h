// Small random Llama-shaped models as GGUF bytes, so that tests need no model file. Weights come from the counter-based
// generator: the same spec gives the same bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "model/gguf.h"
#include "model/model_config.h"

namespace winnow {

struct TinyModelSpec {
  int64_t num_layers = 2;
  int64_t num_query_heads = 9;  // 9 + 3 heads: uneven over two ranks, like SmolLM2
  int64_t num_kv_heads = 3;
  int64_t head_dim = 32;
  int64_t ffn_size = 768;
  int64_t context = 4096;
  bool tied_embeddings = true;
  DType weights = DType::kQ4_1;     // any but kF16; those of 256 a block need multiples of 256
  DType embeddings = DType::kQ8_0;  // of token_embd and output
  uint64_t seed = 1;
  float key_gain = 1.5f;  // of the key projection; 0 (F32 only): every query attends to all it sees alike

  int64_t hidden_size() const { return num_query_heads * head_dim; }
};

// A whole model file with a byte-level vocabulary (tests/support/tiny_vocabulary.h).
std::vector<uint8_t> TinyModelBytes(const TinyModelSpec& spec);

// The same, opened. Aborts the test program if winnow refuses it.
struct TinyModel {
  explicit TinyModel(const TinyModelSpec& spec);
  GgufFile file;
  ModelConfig config;
};

}  // namespace winnow
