// Compacted positions of SequenceCache: keys turn to the index of the slot that they move to.
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/exact_math.h"
#include "kv/sequence_cache.h"

namespace winnow {
namespace {

// Turns a key [head_dim] by cos_sin [head_dim] (cosines, then sines), as RopeAppend turns it: floats, one rounding a
// product and a sum.
void Turn(const std::vector<float>& cos_sin, float* key) {
  const size_t half = cos_sin.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const float a = key[i], b = key[i + half], c = cos_sin[i], s = cos_sin[i + half];
    key[i] = std::fma(a, c, -(b * s));
    key[i + half] = std::fma(b, c, a * s);
  }
}

}  // namespace

void SequenceCache::CompactPositions(std::span<const double> frequencies) {
  WINNOW_CHECK(entries() == 0 && next_position() == 0 && int64_t(frequencies.size()) * 2 == head_dim());
  compaction_frequencies_.assign(frequencies.begin(), frequencies.end());
}

void SequenceCache::TurnMovedKeys(const KeepPlan& plan) {
  const size_t half = compaction_frequencies_.size(), dim = 2 * half;
  std::vector<float> cos_sin(dim), keys, values;
  std::vector<int32_t> slots, distances;
  for (size_t index = 0; index < heads_.size(); ++index) {
    const std::vector<int32_t>& kept = plan.kept[index];
    WINNOW_CHECK(kept == plan.kept[0]);
    slots.clear(), distances.clear();
    for (size_t slot = 0; slot < kept.size(); ++slot) {
      if (kept[slot] == int32_t(slot)) continue;  // sinks stay where they are, and as they are
      slots.push_back(heads_[index].PhysicalSlot(int64_t(slot)));
      distances.push_back(int32_t(slot) - kept[slot]);
    }
    keys.resize(slots.size() * dim), values.resize(slots.size() * dim);
    pool_->ReadSlots(slots, keys, values);
    int32_t turned_by = 0;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (distances[i] != turned_by) {
        turned_by = distances[i];
        for (size_t pair = 0; pair < half; ++pair) {
          const auto [sine, cosine] = ExactSinCos(double(turned_by) * compaction_frequencies_[pair]);
          cos_sin[pair] = float(cosine);
          cos_sin[pair + half] = float(sine);
        }
      }
      Turn(cos_sin, keys.data() + i * dim);
    }
    pool_->WriteSlots(slots, keys, values);
  }
}

}  // namespace winnow
