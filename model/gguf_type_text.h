// Words for the numbers that GGUF files give tensor types. Internal to model/gguf; pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>

namespace winnow {

// "16 (IQ2_XXS)", or the number alone where ggml has no such type.
std::string GgufTypeText(uint32_t type);
// "F32, F16, Q4_0, ...": weights that winnow reads, by ggml's numbers.
std::string SupportedTypesText();

}  // namespace winnow
