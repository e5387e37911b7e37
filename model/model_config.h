// What a model is: sizes and constants of a Llama-style decoder, read from a GGUF file or a config.json. Plain data,
// any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/gguf.h"

namespace winnow {

// How a model stretches the frequencies of RoPE beyond the context it was first trained for. Names and defaults of
// Hugging Face's rope_scaling.
struct RopeScaling {
  // kLinear: positions / factor. kLlama3: "llama3" of Llama 3.1. kYarn: arXiv 2309.00071. kFactors: a factor a
  // frequency, as GGUF files of Llama 3 carry them (rope_freqs.weight).
  enum class Type { kNone, kLinear, kLlama3, kYarn, kFactors };
  Type type = Type::kNone;
  double factor = 1;
  int64_t original_context = 0;                      // kLlama3, kYarn
  double low_freq_factor = 1, high_freq_factor = 4;  // kLlama3
  double beta_fast = 32, beta_slow = 1;              // kYarn
  double attention_factor = 1;                       // kYarn: cosines and sines are multiplied by it
  std::vector<float> factors = {};                   // kFactors: [head_dim / 2]
};

struct ModelConfig {
  std::string architecture;  // "llama", "qwen2" or "qwen3"; Mistral is llama
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
  RopeScaling rope_scaling;
  bool qkv_bias = false;         // attn_q.bias, attn_k.bias, attn_v.bias (Qwen2)
  bool qk_norm = false;          // RMS norm of every head's query and key before RoPE, over head_dim (Qwen3)
  bool tied_embeddings = false;  // no output.weight: the head is token_embd.weight
  // The rows of attn_q and attn_k stand as GGUF's llama converter leaves them: within a head, RoPE turns the row pair
  // (2i, 2i + 1), not (i, i + head_dim / 2).
  bool permuted_qk_rows = false;
};

// BadFile, naming what was expected and found, for everything winnow would compute wrongly: other architectures, other
// RoPE scaling, sliding windows, experts, other biases, unknown hyper-parameters, and tensors that are missing, of
// another shape or unknown.
Result<ModelConfig> ReadModelConfig(const GgufFile& file);

}  // namespace winnow
