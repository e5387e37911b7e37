#include <cmath>

#include "compute/reference/kv_page.h"
#include "compute/reference/reference_backend.h"

namespace winnow {
namespace {

// Pairs (i, i + d / 2) of one head turn by the angle whose cosine and sine are cos_sin[i], cos_sin[i + d / 2].
void Rotate(const float* head, const float* cos_sin, int64_t head_dim, float* out) {
  const int64_t half = head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half], c = cos_sin[i], s = cos_sin[i + half];
    out[i] = std::fma(a, c, -(b * s));
    out[i + half] = std::fma(b, c, a * s);
  }
}

}  // namespace

void ReferenceBackend::DoRopeAppend(const RopeAppendArgs& args) {
  const int64_t rows = args.q.dim(0), query_heads = args.q.dim(1), kv_heads = args.k.dim(1);
  const int64_t head_dim = args.kv.head_dim;
  std::vector<float> rotated(static_cast<size_t>(head_dim));
  for (int64_t r = 0; r < rows; ++r) {
    const float* cos_sin = args.cos_sin.as<float>() + r * head_dim;
    for (int64_t h = 0; h < query_heads; ++h) {
      float* q = args.q.as<float>() + (r * query_heads + h) * head_dim;
      Rotate(q, cos_sin, head_dim, rotated.data());
      for (int64_t i = 0; i < head_dim; ++i) q[i] = rotated[size_t(i)] * args.q_scale;
    }
    for (int64_t h = 0; h < kv_heads; ++h) {
      const int64_t offset = (r * kv_heads + h) * head_dim;
      const ReferenceSlot slot(args.pages, args.kv, args.physical_slots.as<int32_t>()[r * kv_heads + h]);
      Rotate(args.k.as<float>() + offset, cos_sin, head_dim, rotated.data());
      for (int64_t i = 0; i < head_dim; ++i) {
        slot.Write(slot.KeyIndex(i), rotated[size_t(i)]);
        slot.Write(slot.ValueIndex(i), args.v.as<float>()[offset + i]);
      }
    }
  }
  if (args.mass.data() == nullptr) return;
  for (int64_t i = 0; i < rows * kv_heads; ++i) args.mass.as<int64_t>()[args.physical_slots.as<int32_t>()[i]] = 0;
}

}  // namespace winnow
