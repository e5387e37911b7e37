// Rotary position embedding in the metadata of a GGUF file. Internal to model/model_config.
#pragma once

#include <string>

#include "base/status.h"
#include "model/gguf.h"
#include "model/model_config.h"

namespace winnow {

// Reads rope.freq_base and rope.scaling.* under `prefix` ("llama.") into rope_theta and rope_scaling; max_context must
// be there. What these keys mean is what llama.cpp makes of them. BadFile for other kinds of scaling than linear and
// yarn, and for what winnow would ignore.
Status ReadGgufRope(const GgufFile& file, const std::string& prefix, ModelConfig* config);

}  // namespace winnow
