// Which tensors a model must hold, and of which shape. Internal to model/model_config.
#pragma once

#include "base/status.h"
#include "model/model_config.h"
#include "model/tensor_source.h"

namespace winnow {

// Compares the source's tensors with what config asks for; sets tied_embeddings, and rope_scaling from
// rope_freqs.weight where there is one. BadFile names the tensor that is missing, of another shape, or that winnow
// would not use.
Status CheckModelTensors(const TensorSource& source, ModelConfig* config);

}  // namespace winnow
