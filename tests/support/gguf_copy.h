// A GGUF file of a model whose weights are somewhere else, as llama.cpp's converter would write it: rows of Q and K are
// permuted for llama, factors of Llama 3's RoPE stand in rope_freqs.weight. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_config.h"
#include "model/tensor_source.h"

namespace winnow {

// `source` has its rows in half-split order (no permuted_qk_rows). No tokenizer. Yarn's attention factor must be the
// paper's or be given; linear, llama3 and yarn scaling only.
std::vector<uint8_t> GgufCopyOf(const TensorSource& source, const ModelConfig& config);

}  // namespace winnow
