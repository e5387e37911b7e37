// What a model is: sizes and constants of a Llama-style decoder, read from a GGUF file or a config.json. Plain data,
// any thread.
#pragma once

#include <string>

#include "model/gguf.h"

namespace winnow {

struct ModelConfig {
  std::string architecture;  // "llama"
  std::string name;          // general.name, or empty; always UTF-8
  int hidden_size = 0;       // multiple of 32
  int num_layers = 0;
  int num_query_heads = 0;  // multiple of num_kv_heads
  int num_kv_heads = 0;
  int head_dim = 0;  // multiple of 32
  int ffn_size = 0;  // multiple of 64
  int vocab_size = 0;
  int max_context = 0;  // tokens the model was trained for
  float rms_epsilon = 0;
  float rope_theta = 0;
  bool tied_embeddings = false;  // no output.weight: the head is token_embd.weight
  // The rows of attn_q and attn_k stand as GGUF's llama converter leaves them: within a head, RoPE turns the row pair
  // (2i, 2i + 1), not (i, i + head_dim / 2).
  bool permuted_qk_rows = false;
};

// BadFile, naming what was expected and found, for everything winnow would compute wrongly: other architectures, RoPE
// scaling, sliding windows, experts, biases, unknown hyper-parameters, and tensors that are missing, of another shape
// or unknown.
Result<ModelConfig> ReadModelConfig(const GgufFile& file);

}  // namespace winnow
