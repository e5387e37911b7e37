// Reading and writing single slots: every CPU kernel set against the reference, and the reference against the layout
// that compute/kv_layout.h promises.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/hash.h"
#include "compute/weight_blocks.h"
#include "tests/compute/cpu_backends.h"

namespace winnow {
namespace {

constexpr int64_t kPages = 5;

// `count` different physical slots of the pool, in no order.
std::vector<int32_t> SomeSlots(int64_t count, uint64_t seed) {
  std::vector<int32_t> slots;
  for (int32_t slot = 0; slot < kPages * kPageSlots; ++slot) slots.push_back(slot);
  for (size_t i = slots.size(); i-- > 1;) std::swap(slots[i], slots[HashWords({seed, i}) % (i + 1)]);
  slots.resize(size_t(count));
  return slots;
}

struct Pool {
  Pool(Backend& backend, DeviceTensors& tensors, const KvLayout& layout)
      : kv(layout),
        pages(tensors.Empty(DType::kF32, {kPages * layout.page_bytes() / 4})),
        mass(tensors.Empty(DType::kI64, {kPages, kPageSlots})) {
    backend.Fill(mass, 0x11);
  }
  KvLayout kv;
  Tensor pages, mass;
};

std::vector<KvLayout> Layouts() {
  return {{16, DType::kBF16}, {16, DType::kF32}, {64, DType::kBF16}, {96, DType::kBF16}, {128, DType::kF32}};
}

class CpuSlots : public CpuTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, CpuSlots, testing::ValuesIn(CpuVariants()), VariantName);

// Bytes of pages and mass as floats: compared as numbers only where they are no NaN patterns, so as words here.
template <class T>
std::vector<uint32_t> Words(DeviceTensors& tensors, const Tensor& tensor) {
  const std::vector<T> values = tensors.Get<T>(tensor);
  std::vector<uint32_t> words(values.size() * sizeof(T) / 4);
  std::memcpy(words.data(), values.data(), words.size() * 4);
  return words;
}

TEST_P(CpuSlots, WrittenSlotsHaveTheBytesOfTheReferenceAndOthersAreLeftAlone) {
  for (const KvLayout& layout : Layouts()) {
    for (int64_t count : {1, 7, 79}) {
      const auto run = [&](Backend& backend) {
        DeviceTensors tensors(backend);
        const Pool pool(backend, tensors, layout);
        backend.Fill(pool.pages, 0x3c);
        std::vector<float> keys = RandomFloats(1, count * layout.head_dim, 100.0f);
        keys[0] = std::numeric_limits<float>::infinity();
        keys[1] = 1e-40f;  // a denormal number stays one
        backend.WriteSlots(
            {.physical_slots = tensors.Ints({count}, SomeSlots(count, uint64_t(count))),
             .keys = tensors.Floats({count, layout.head_dim}, keys),
             .values = tensors.Floats({count, layout.head_dim}, RandomFloats(2, count * layout.head_dim, 1e-3f)),
             .pages = pool.pages,
             .kv = layout,
             .mass = pool.mass});
        auto words = Words<float>(tensors, pool.pages);
        const auto mass = Words<int64_t>(tensors, pool.mass);
        words.insert(words.end(), mass.begin(), mass.end());
        return words;
      };
      EXPECT_EQ(run(*cpu_), run(*reference_)) << layout.head_dim << " " << count;
    }
  }
}

TEST_P(CpuSlots, WhatWasWrittenIsReadBackAndAsTheReferenceReadsIt) {
  for (const KvLayout& layout : Layouts()) {
    constexpr int64_t kCount = 33;
    const std::vector<int32_t> slots = SomeSlots(kCount, 5);
    const auto keys = RandomFloats(3, kCount * layout.head_dim), values = RandomFloats(4, kCount * layout.head_dim);
    // Rounded once, as the cache holds them: reading and writing again changes nothing more.
    const auto stored = [&](std::vector<float> floats) {
      if (layout.dtype == DType::kF32) return floats;
      for (float& value : floats) value = BFloat16ToFloat(FloatToBFloat16(value));
      return floats;
    };
    ExpectSameAsReference([&](Backend& backend, DeviceTensors& tensors) {
      const Pool pool(backend, tensors, layout);
      const Tensor list = tensors.Ints({kCount}, slots);
      const Tensor key_rows = tensors.Floats({kCount, layout.head_dim}, keys);
      const Tensor value_rows = tensors.Floats({kCount, layout.head_dim}, values);
      backend.WriteSlots(
          {.physical_slots = list, .keys = key_rows, .values = value_rows, .pages = pool.pages, .kv = layout});
      const Tensor read_keys = tensors.Empty(DType::kF32, {kCount, layout.head_dim});
      const Tensor read_values = tensors.Empty(DType::kF32, {kCount, layout.head_dim});
      backend.ReadSlots({.physical_slots = list, .keys = read_keys, .pages = pool.pages, .kv = layout});
      EXPECT_EQ(tensors.Get(read_keys), stored(keys));
      EXPECT_EQ(tensors.Get(read_values), std::vector<float>(values.size(), 0.0f)) << "values were not asked for";
      backend.ReadSlots({.physical_slots = list, .values = read_values, .pages = pool.pages, .kv = layout});
      EXPECT_EQ(tensors.Get(read_values), stored(values));
      // A second round, from what was read.
      backend.WriteSlots(
          {.physical_slots = list, .keys = read_keys, .values = read_values, .pages = pool.pages, .kv = layout});
      backend.ReadSlots(
          {.physical_slots = list, .keys = key_rows, .values = value_rows, .pages = pool.pages, .kv = layout});
      EXPECT_EQ(tensors.Get(key_rows), stored(keys));
      auto all = tensors.Get(key_rows);
      const auto rest = tensors.Get(value_rows);
      all.insert(all.end(), rest.begin(), rest.end());
      return all;
    });
  }
}

TEST_P(CpuSlots, MassOfWrittenSlotsIsTheGivenOneOrZeroAndOthersKeepTheirs) {
  const KvLayout layout{16, DType::kBF16};
  constexpr int64_t kCount = 20;
  const std::vector<int32_t> slots = SomeSlots(kCount, 9);
  for (bool is_given : {false, true}) {
    DeviceTensors tensors(*cpu_);
    const Pool pool(*cpu_, tensors, layout);
    std::vector<int64_t> given;
    for (int64_t i = 0; i < kCount; ++i) given.push_back((int64_t(1) << 50) + i);
    const std::vector<float> zeros(size_t(kCount * 16), 0.0f);
    cpu_->WriteSlots({.physical_slots = tensors.Ints({kCount}, slots),
                      .keys = tensors.Floats({kCount, 16}, zeros),
                      .values = tensors.Floats({kCount, 16}, zeros),
                      .pages = pool.pages,
                      .kv = layout,
                      .mass = pool.mass,
                      .slot_mass = is_given ? tensors.Put(DType::kI64, {kCount}, given) : Tensor()});
    std::vector<int64_t> expected(size_t(kPages * kPageSlots), 0x1111111111111111);
    for (size_t i = 0; i < slots.size(); ++i) expected[size_t(slots[i])] = is_given ? given[i] : 0;
    EXPECT_EQ(tensors.Get<int64_t>(pool.mass), expected);
  }
}

TEST_P(CpuSlots, ANaNStaysANaNOfItsSlotAlone) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    const KvLayout layout{16, dtype};
    DeviceTensors tensors(*cpu_);
    const Pool pool(*cpu_, tensors, layout);
    std::vector<float> keys(32, 1.0f), values(32, 2.0f);
    keys[3] = values[16] = std::numeric_limits<float>::quiet_NaN();
    const Tensor list = tensors.Ints({2}, {17, 4});
    const Tensor k = tensors.Floats({2, 16}, keys), v = tensors.Floats({2, 16}, values);
    cpu_->WriteSlots({.physical_slots = list, .keys = k, .values = v, .pages = pool.pages, .kv = layout});
    cpu_->ReadSlots({.physical_slots = list, .keys = k, .values = v, .pages = pool.pages, .kv = layout});
    ExpectSameFloats(tensors.Get(k), keys);
    ExpectSameFloats(tensors.Get(v), values);
  }
}

// K is [dim pair][slot][2], V [slot][dim], in this very order of floats.
TEST(ReferenceSlots, LieWhereTheLayoutSays) {
  const auto backend = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  DeviceTensors tensors(*backend);
  const KvLayout layout{16, DType::kF32};
  const Pool pool(*backend, tensors, layout);
  std::vector<float> keys, values;
  for (int i = 0; i < 16; ++i) {
    keys.push_back(100 + float(i));
    values.push_back(200 + float(i));
  }
  const int64_t page = 3, slot = 5;
  backend->WriteSlots({.physical_slots = tensors.Ints({1}, {int32_t(page * kPageSlots + slot)}),
                       .keys = tensors.Floats({1, 16}, keys),
                       .values = tensors.Floats({1, 16}, values),
                       .pages = pool.pages,
                       .kv = layout});
  const std::vector<float> all = tensors.Get(pool.pages);
  std::vector<float> expected(all.size(), 0.0f);
  const int64_t base = page * 2 * kPageSlots * 16;
  for (int64_t dim = 0; dim < 16; ++dim) {
    expected[size_t(base + (dim / 2 * kPageSlots + slot) * 2 + dim % 2)] = keys[size_t(dim)];
    expected[size_t(base + kPageSlots * 16 + slot * 16 + dim)] = values[size_t(dim)];
  }
  EXPECT_EQ(all, expected);
}

TEST(ReferenceSlotsDeathTest, ShapesAreChecked) {
  const auto backend = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  DeviceTensors tensors(*backend);
  const KvLayout layout{16, DType::kF32};
  const Pool pool(*backend, tensors, layout);
  const Tensor list = tensors.Ints({2}, {0, 1}), good = tensors.Empty(DType::kF32, {2, 16});
  const Tensor short_rows = tensors.Empty(DType::kF32, {1, 16});
  EXPECT_DEATH(backend->ReadSlots({.physical_slots = list, .keys = short_rows, .pages = pool.pages, .kv = layout}), "");
  EXPECT_DEATH(backend->WriteSlots({.physical_slots = list, .keys = good, .pages = pool.pages, .kv = layout}), "");
}

}  // namespace
}  // namespace winnow
