// Which tensors a model must hold, and of which shape. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model_config.h"
#include "model/tensor_source.h"

namespace winnow {

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;  // GGUF order: columns first
};

// All tensors of a model by GGUF's names, in the order of computation; without output.weight where embeddings are tied.
std::vector<NamedShape> TensorsOf(const ModelConfig& config);

// Compares the source's tensors with what config asks for; sets tied_embeddings, and rope_scaling from
// rope_freqs.weight where there is one. BadFile names the tensors that are missing (all of them, up to eight by name),
// one of another shape, or one that winnow would not use.
Status CheckModelTensors(const TensorSource& source, ModelConfig* config);

}  // namespace winnow
