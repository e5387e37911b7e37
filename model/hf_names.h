// Names of tensors in Hugging Face's checkpoints of Llama, Mistral, Qwen2 and Qwen3, and what GGUF files call them.
// Pure functions, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace winnow {

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight"; none for what no such model has.
std::optional<std::string> GgufNameOf(std::string_view hf_name);
// The other way; a name that GgufNameOf gives for none comes back as it is.
std::string HfNameOf(std::string_view gguf_name);

}  // namespace winnow
