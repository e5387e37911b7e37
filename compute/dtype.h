// Element and block types of tensors, with the numbers GGUF gives them. Facts only, no arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace winnow {

enum class DType : uint8_t {
  // Plain elements.
  kF32,
  kF16,
  kBF16,
  kI32,
  kI64,
  // GGUF block formats (ggml's block_q*): weights only, de-quantised by compute/weight_blocks.h.
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
};

struct DTypeInfo {
  std::string_view name;   // as in GGUF tools: "F32", "Q4_1"
  int64_t block_elements;  // 1 for plain elements
  int64_t block_bytes;
  uint32_t gguf_type;  // ggml's type number
};

const DTypeInfo& GetDTypeInfo(DType dtype);
inline std::string_view Name(DType dtype) {
  return GetDTypeInfo(dtype).name;
}
inline int64_t BlockElements(DType dtype) {
  return GetDTypeInfo(dtype).block_elements;
}
inline int64_t BlockBytes(DType dtype) {
  return GetDTypeInfo(dtype).block_bytes;
}

// Bytes of `count` elements; count must be a multiple of BlockElements(dtype).
int64_t BytesOf(DType dtype, int64_t count);

// The type with ggml's number, or nothing if winnow cannot read it.
std::optional<DType> DTypeFromGguf(uint32_t gguf_type);

}  // namespace winnow
