// What a Hugging Face config.json says about RoPE, in the spellings of transformers 4 (rope_theta, rope_scaling with
// "type" or "rope_type") and 5 (rope_parameters). Internal to model/hf_config; one thread.
#pragma once

#include "model/hf_config_fields.h"
#include "model/model_config.h"

namespace winnow {

// Takes the keys from `fields` and sets rope_theta and rope_scaling; max_context and head_dim are set. BadFile for
// types other than default, linear, llama3 and yarn, and for numbers that are missing or make no sense.
Status ReadHfRope(HfFields* fields, ModelConfig* config);

}  // namespace winnow
