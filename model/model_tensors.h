// Which tensors a model must hold, and of which shape. Internal to model/model_config.
#pragma once

#include "base/status.h"
#include "model/gguf.h"
#include "model/model_config.h"

namespace winnow {

// Compares the file's tensors with what config's sizes ask for, and sets tied_embeddings. BadFile names the tensor that
// is missing, of another shape, or that winnow would not use.
Status CheckModelTensors(const GgufFile& file, ModelConfig* config);

}  // namespace winnow
