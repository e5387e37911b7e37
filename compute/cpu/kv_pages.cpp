#include "compute/cpu/kv_pages.h"

#include <cmath>
#include <cstring>

#include "compute/weight_blocks.h"

namespace winnow::cpu {
namespace {

void Put(float value, float* to) {
  *to = value;
}
void Put(float value, uint16_t* to) {
  *to = FloatToBFloat16(value);
}

template <class E>
E* KeysOf(const Tensor& pages, const KvLayout& kv, int64_t physical_slot) {
  return reinterpret_cast<E*>(pages.data() + physical_slot / kPageSlots * kv.page_bytes());
}
template <class E>
E* Key(const Tensor& pages, const KvLayout& kv, int64_t physical_slot, int64_t dim) {
  return KeysOf<E>(pages, kv, physical_slot) + dim / 2 * 2 * kPageSlots + physical_slot % kPageSlots * 2 + dim % 2;
}
template <class E>
E* Value(const Tensor& pages, const KvLayout& kv, int64_t physical_slot, int64_t dim) {
  return KeysOf<E>(pages, kv, physical_slot) + (kPageSlots + physical_slot % kPageSlots) * kv.head_dim + dim;
}

template <class E>
void RopeAppendRow(const RopeAppendArgs& args, int64_t row) {
  const int64_t head_dim = args.kv.head_dim, half = head_dim / 2;
  const int64_t query_heads = args.q.dim(1), kv_heads = args.k.dim(1);
  const float* cosine = args.cos_sin.as<float>() + row * head_dim;
  const float* sine = cosine + half;
  for (int64_t h = 0; h < query_heads; ++h) {
    float* q = args.q.as<float>() + (row * query_heads + h) * head_dim;
    for (int64_t i = 0; i < half; ++i) {
      const float a = q[i], b = q[i + half];
      q[i] = std::fma(a, cosine[i], -(b * sine[i])) * args.q_scale;
      q[i + half] = std::fma(b, cosine[i], a * sine[i]) * args.q_scale;
    }
  }
  for (int64_t h = 0; h < kv_heads; ++h) {
    const int64_t slot = args.physical_slots.as<int32_t>()[row * kv_heads + h];
    const float* k = args.k.as<float>() + (row * kv_heads + h) * head_dim;
    const float* v = args.v.as<float>() + (row * kv_heads + h) * head_dim;
    for (int64_t i = 0; i < half; ++i) {
      const float a = k[i], b = k[i + half];
      Put(std::fma(a, cosine[i], -(b * sine[i])), Key<E>(args.pages, args.kv, slot, i));
      Put(std::fma(b, cosine[i], a * sine[i]), Key<E>(args.pages, args.kv, slot, i + half));
    }
    E* value = Value<E>(args.pages, args.kv, slot, 0);
    for (int64_t i = 0; i < head_dim; ++i) Put(v[i], value + i);
    if (args.mass.data() != nullptr) args.mass.as<int64_t>()[slot] = 0;
  }
}

template <class E>
void Move(const CompactArgs& args, int64_t from, int64_t to, int64_t dim_begin, int64_t dim_end) {
  // Addresses once a move, not once a pair: they cost more than the copies (an eviction down to 1,024 slots of 90 heads
  // on a busy machine: 87 -> 16 ms).
  const E* key_from = Key<E>(args.pages, args.kv, from, 0);
  E* key_to = Key<E>(args.pages, args.kv, to, 0);
  for (int64_t dim = dim_begin; dim < dim_end; dim += 2) {
    std::memcpy(key_to + dim * kPageSlots, key_from + dim * kPageSlots, 2 * sizeof(E));
  }
  std::memmove(Value<E>(args.pages, args.kv, to, dim_begin), Value<E>(args.pages, args.kv, from, dim_begin),
               size_t(dim_end - dim_begin) * sizeof(E));
}

float Get(float value) {
  return value;
}
float Get(uint16_t value) {
  return BFloat16ToFloat(value);
}

template <class E>
void ReadSlot(const SlotArgs& args, int64_t index) {
  const int64_t slot = args.physical_slots.as<int32_t>()[index], head_dim = args.kv.head_dim;
  if (args.keys.data() != nullptr) {
    float* keys = args.keys.as<float>() + index * head_dim;
    const E* key = Key<E>(args.pages, args.kv, slot, 0);
    for (int64_t dim = 0; dim < head_dim; dim += 2, key += 2 * kPageSlots) {
      keys[dim] = Get(key[0]);
      keys[dim + 1] = Get(key[1]);
    }
  }
  if (args.values.data() != nullptr) {
    float* values = args.values.as<float>() + index * head_dim;
    const E* value = Value<E>(args.pages, args.kv, slot, 0);
    for (int64_t dim = 0; dim < head_dim; ++dim) values[dim] = Get(value[dim]);
  }
}

template <class E>
void WriteSlot(const SlotArgs& args, int64_t index) {
  const int64_t slot = args.physical_slots.as<int32_t>()[index], head_dim = args.kv.head_dim;
  const float* keys = args.keys.as<float>() + index * head_dim;
  const float* values = args.values.as<float>() + index * head_dim;
  E* key = Key<E>(args.pages, args.kv, slot, 0);
  E* value = Value<E>(args.pages, args.kv, slot, 0);
  for (int64_t dim = 0; dim < head_dim; dim += 2, key += 2 * kPageSlots) {
    Put(keys[dim], key);
    Put(keys[dim + 1], key + 1);
  }
  for (int64_t dim = 0; dim < head_dim; ++dim) Put(values[dim], value + dim);
  if (args.mass.data() == nullptr) return;
  args.mass.as<int64_t>()[slot] = args.slot_mass.data() != nullptr ? args.slot_mass.as<int64_t>()[index] : 0;
}

}  // namespace

void RopeAppendRows(const RopeAppendArgs& args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    if (args.kv.dtype == DType::kBF16) {
      RopeAppendRow<uint16_t>(args, row);
    } else {
      RopeAppendRow<float>(args, row);
    }
  }
}

void CompactDimensions(const CompactArgs& args, int64_t dim_begin, int64_t dim_end) {
  const int32_t* moves = args.moves.as<int32_t>();
  for (int64_t i = 0; i < args.moves.dim(0); ++i) {
    const int64_t from = moves[2 * i], to = moves[2 * i + 1];
    if (from == to) continue;
    if (args.kv.dtype == DType::kBF16) {
      Move<uint16_t>(args, from, to, dim_begin, dim_end);
    } else {
      Move<float>(args, from, to, dim_begin, dim_end);
    }
  }
}

void ReadSlotRange(const SlotArgs& args, int64_t begin, int64_t end) {
  const bool is_bf16 = args.kv.dtype == DType::kBF16;
  for (int64_t i = begin; i < end; ++i) is_bf16 ? ReadSlot<uint16_t>(args, i) : ReadSlot<float>(args, i);
}

void WriteSlotRange(const SlotArgs& args, int64_t begin, int64_t end) {
  const bool is_bf16 = args.kv.dtype == DType::kBF16;
  for (int64_t i = begin; i < end; ++i) is_bf16 ? WriteSlot<uint16_t>(args, i) : WriteSlot<float>(args, i);
}

void CompactMass(const CompactArgs& args) {
  const int32_t* moves = args.moves.as<int32_t>();
  int64_t* mass = args.mass.as<int64_t>();
  for (int64_t i = 0; i < args.moves.dim(0); ++i) mass[moves[2 * i + 1]] = mass[moves[2 * i]];
}

}  // namespace winnow::cpu
