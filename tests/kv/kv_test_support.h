// Keys and values that can be recognised: every slot's bytes are a function of (text, layer, global head, position).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "compute/backend.h"
#include "kv/page_pool.h"
#include "kv/sequence_cache.h"

namespace winnow {

inline std::unique_ptr<PagePool> MakePool(Backend& backend, int64_t num_pages, const KvLayout& layout) {
  return PagePool::Make(backend, layout, num_pages).value();
}

// The bytes of the whole pool, read and written by slot. Says the page layout once more, apart from the ops.
class PoolImage {
 public:
  explicit PoolImage(const PagePool& pool) : pool_(pool), bytes_(size_t(pool.pages().bytes())) {
    pool.backend().CopyToHost(bytes_, pool.pages());
  }
  void Upload() const { pool_.backend().CopyToDevice(pool_.pages(), bytes_); }

  // Keys, then values of a slot.
  std::vector<std::byte> Slot(int64_t physical_slot) {
    std::vector<std::byte> out;
    ForEachElement(physical_slot, [&](std::byte* at, size_t size) { out.insert(out.end(), at, at + size); });
    return out;
  }
  void SetSlot(int64_t physical_slot, const std::vector<std::byte>& values) {
    size_t next = 0;
    ForEachElement(physical_slot, [&](std::byte* at, size_t size) {
      std::memcpy(at, values.data() + next, size);
      next += size;
    });
  }

 private:
  template <class F>
  void ForEachElement(int64_t physical_slot, F&& f) {
    const KvLayout& kv = pool_.layout();
    const int64_t element = BlockBytes(kv.dtype), slot = physical_slot % kPageSlots;
    std::byte* page = bytes_.data() + physical_slot / kPageSlots * kv.page_bytes();
    for (int64_t dim = 0; dim < kv.head_dim; ++dim) {
      f(page + ((dim / 2 * kPageSlots + slot) * 2 + dim % 2) * element, size_t(element));
    }
    std::byte* v = page + kPageSlots * kv.head_dim * element;
    for (int64_t dim = 0; dim < kv.head_dim; ++dim) f(v + (slot * kv.head_dim + dim) * element, size_t(element));
  }

  const PagePool& pool_;
  std::vector<std::byte> bytes_;
};

inline std::vector<std::byte> Stamp(const KvLayout& kv, uint64_t text, int64_t layer, int64_t global_head,
                                    int64_t position) {
  std::vector<std::byte> out(size_t(2 * kv.head_dim * BlockBytes(kv.dtype)));
  const uint64_t key = HashWords({text, uint64_t(layer), uint64_t(global_head), uint64_t(position)});
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::byte(Mix64(key + i) & 0xff);
  return out;
}

// Writes the stamps of all slots at positions >= first_position.
inline void StampSlots(PagePool& pool, const SequenceCache& cache, uint64_t text, int64_t first_position = 0) {
  PoolImage image(pool);
  for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
    for (int64_t h = 0; h < cache.num_kv_heads(); ++h) {
      const HeadCache& head = cache.head(layer, h);
      for (int64_t slot = 0; slot < head.length(); ++slot) {
        const int32_t position = head.positions[size_t(slot)];
        if (position < first_position) continue;
        image.SetSlot(head.PhysicalSlot(slot), Stamp(pool.layout(), text, layer, cache.first_kv_head() + h, position));
      }
    }
  }
  image.Upload();
}

// Every slot holds the keys and values of the position it claims.
inline void ExpectStamped(const PagePool& pool, const SequenceCache& cache, uint64_t text) {
  PoolImage image(pool);
  for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
    for (int64_t h = 0; h < cache.num_kv_heads(); ++h) {
      const HeadCache& head = cache.head(layer, h);
      for (int64_t slot = 0; slot < head.length(); ++slot) {
        const int32_t position = head.positions[size_t(slot)];
        ASSERT_EQ(image.Slot(head.PhysicalSlot(slot)),
                  Stamp(pool.layout(), text, layer, cache.first_kv_head() + h, position))
            << "text " << text << " layer " << layer << " head " << h << " slot " << slot << " position " << position;
      }
    }
  }
}

inline void ReserveAndAppend(SequenceCache& cache, int64_t num_tokens) {
  const Status status = cache.Reserve(num_tokens);
  ASSERT_TRUE(status.ok()) << status.message();
  cache.Append(num_tokens);
}

// A random ascending part of [0, length), keeping each slot with probability keep_percent.
inline std::vector<int32_t> RandomSlots(int64_t length, uint64_t keep_percent, uint64_t seed) {
  std::vector<int32_t> kept;
  for (int64_t slot = 0; slot < length; ++slot) {
    if (HashWords({seed, uint64_t(slot)}) % 100 < keep_percent) kept.push_back(int32_t(slot));
  }
  return kept;
}

}  // namespace winnow
