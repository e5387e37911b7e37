#include "model/gguf_type_text.h"

#include <optional>
#include <string_view>
#include <utility>

#include "compute/dtype.h"

namespace winnow {
namespace {

// Types of ggml that winnow does not read, by their numbers.
constexpr std::pair<uint32_t, std::string_view> kOtherTypes[] = {
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
    {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {24, "I8"},     {25, "I16"},
    {28, "F64"},   {29, "IQ1_M"}, {34, "TQ1_0"},   {35, "TQ2_0"},  {39, "MXFP4"}};

}  // namespace

std::string GgufTypeText(uint32_t type) {
  for (const auto& [number, name] : kOtherTypes) {
    if (number == type) return std::to_string(type) + " (" + std::string(name) + ")";
  }
  return std::to_string(type);
}

std::string SupportedTypesText() {
  std::string text;
  for (uint32_t number = 0; number < 64; ++number) {
    const std::optional<DType> dtype = DTypeFromGguf(number);
    if (!dtype || *dtype == DType::kI32 || *dtype == DType::kI64) continue;
    text += (text.empty() ? "" : ", ") + std::string(Name(*dtype));
  }
  return text;
}

}  // namespace winnow
