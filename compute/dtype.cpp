#include "compute/dtype.h"

#include <array>

#include "base/check.h"

namespace winnow {
namespace {

// Indexed by DType. Block sizes and type numbers: ggml's ggml.h and ggml-common.h.
constexpr std::array<DTypeInfo, 17> kInfos = {{
    {"F32", 1, 4, 0},
    {"F16", 1, 2, 1},
    {"BF16", 1, 2, 30},
    {"I32", 1, 4, 26},
    {"I64", 1, 8, 27},
    {"Q4_0", 32, 18, 2},
    {"Q4_1", 32, 20, 3},
    {"Q5_0", 32, 22, 6},
    {"Q5_1", 32, 24, 7},
    {"Q8_0", 32, 34, 8},
    {"Q2_K", 256, 84, 10},
    {"Q3_K", 256, 110, 11},
    {"Q4_K", 256, 144, 12},
    {"Q5_K", 256, 176, 13},
    {"Q6_K", 256, 210, 14},
    {"IQ4_NL", 32, 18, 20},
    {"IQ4_XS", 256, 136, 23},
}};

}  // namespace

const DTypeInfo& GetDTypeInfo(DType dtype) {
  return kInfos[size_t(dtype)];
}

int64_t BytesOf(DType dtype, int64_t count) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  WINNOW_CHECK(count >= 0 && count % info.block_elements == 0);
  return count / info.block_elements * info.block_bytes;
}

std::optional<DType> DTypeFromGguf(uint32_t gguf_type) {
  for (size_t i = 0; i < kInfos.size(); ++i) {
    if (kInfos[i].gguf_type == gguf_type) return DType(i);
  }
  return std::nullopt;
}

}  // namespace winnow
