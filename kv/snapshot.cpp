#include "kv/snapshot.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "kv/sequence_cache.h"

namespace winnow {
namespace {

// The first element that is infinite or NaN, or -1.
template <class Bits>
int64_t FirstNotFinite(std::span<const uint8_t> bytes, Bits exponent) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + at, sizeof(bits));
    if ((bits & exponent) == exponent) return int64_t(at / sizeof(Bits));
  }
  return -1;
}

std::string Ints(int64_t value) {
  return std::to_string(value);
}

Status CheckElements(const SequenceSnapshot& snapshot, const char* what, std::span<const uint8_t> bytes,
                     int64_t length) {
  const int64_t expected = BytesOf(snapshot.dtype, length * snapshot.head_dim);
  if (int64_t(bytes.size()) != expected) {
    return BadFile(std::string(what) + ": expected " + Ints(length) + " slots in " + Ints(expected) + " bytes, found " +
                   Ints(int64_t(bytes.size())) + " bytes");
  }
  const int64_t bad = snapshot.dtype == DType::kBF16 ? FirstNotFinite<uint16_t>(bytes, 0x7f80)
                                                     : FirstNotFinite<uint32_t>(bytes, 0x7f800000);
  if (bad < 0) return OkStatus();
  return BadFile(std::string(what) + ": expected finite numbers, found NaN or infinity in slot " +
                 Ints(bad / snapshot.head_dim));
}

Status CheckPositions(const char* what, std::span<const int32_t> positions, int64_t end) {
  int64_t least = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < least || positions[i] >= end) {
      return BadFile(std::string(what) + ": expected ascending positions below " + Ints(end) + ", found " +
                     Ints(positions[i]) + " at index " + Ints(int64_t(i)));
    }
    least = int64_t(positions[i]) + 1;
  }
  return OkStatus();
}

Status CheckHead(const SequenceSnapshot& snapshot, const HeadSnapshot& head) {
  WINNOW_RETURN_IF_ERROR(CheckPositions("positions", head.positions, snapshot.next_position()));
  if (!std::includes(head.positions.begin(), head.positions.end(), snapshot.pinned_positions.begin(),
                     snapshot.pinned_positions.end())) {
    return BadFile("positions: expected all " + Ints(int64_t(snapshot.pinned_positions.size())) +
                   " pinned ones among them");
  }
  WINNOW_RETURN_IF_ERROR(CheckElements(snapshot, "keys", head.keys, head.length()));
  WINNOW_RETURN_IF_ERROR(CheckElements(snapshot, "values", head.values, head.length()));
  const int64_t counters = snapshot.has_mass() ? head.length() : 0;
  if (int64_t(head.mass.size()) != counters) {
    return BadFile("mass: expected " + Ints(counters) + " counters, found " + Ints(int64_t(head.mass.size())));
  }
  const int64_t floats = snapshot.query_rows * snapshot.query_group * snapshot.head_dim;
  if (int64_t(head.queries.size()) != floats) {
    return BadFile("queries: expected " + Ints(floats) + " numbers, found " + Ints(int64_t(head.queries.size())));
  }
  if (std::any_of(head.queries.begin(), head.queries.end(), [](float x) { return !std::isfinite(x); })) {
    return BadFile("queries: expected finite numbers, found NaN or infinity");
  }
  // Heads that share a kept set add their counters in 64 bits.
  const int64_t most = (int64_t(1) << 62) / int64_t(snapshot.heads.size());
  for (int64_t mass : head.mass) {
    if (mass < 0 || mass > most) {
      return BadFile("mass: expected counters from 0 to " + Ints(most) + ", found " + Ints(mass));
    }
  }
  return OkStatus();
}

// Elements of head after head as floats, and back. bf16 is the upper half of a float, so both ways are exact.
void AppendFloats(std::span<const uint8_t> bytes, DType dtype, std::vector<float>* floats) {
  const size_t element = size_t(BlockBytes(dtype)), first = floats->size();
  floats->resize(first + bytes.size() / element);
  for (size_t i = first; i < floats->size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<uint8_t*>(&bits) + (sizeof(bits) - element), bytes.data() + (i - first) * element,
                element);
    std::memcpy(&(*floats)[i], &bits, sizeof(bits));
  }
}

std::vector<uint8_t> ToElements(std::span<const float> floats, DType dtype) {
  const size_t element = size_t(BlockBytes(dtype));
  std::vector<uint8_t> bytes(floats.size() * element);
  for (size_t i = 0; i < floats.size(); ++i) {
    const auto* number = reinterpret_cast<const uint8_t*>(&floats[i]);
    std::memcpy(bytes.data() + i * element, number + (sizeof(float) - element), element);
  }
  return bytes;
}

}  // namespace

bool SequenceSnapshot::has_mass() const {
  return std::any_of(heads.begin(), heads.end(), [](const HeadSnapshot& head) { return !head.mass.empty(); });
}

int64_t SequenceSnapshot::entries() const {
  int64_t sum = 0;
  for (const HeadSnapshot& head : heads) sum += head.length();
  return sum;
}

Status CheckSnapshot(const SequenceSnapshot& snapshot) {
  if (snapshot.tokens_seen < 1 || snapshot.evictions < 0 ||
      snapshot.next_position() > std::numeric_limits<int32_t>::max()) {
    return BadFile("expected 1 or more tokens in the cache and 0 or more evictions, found " +
                   Ints(snapshot.tokens_seen) + " and " + Ints(snapshot.evictions));
  }
  if (snapshot.query_rows < 0 || snapshot.query_rows > snapshot.tokens_seen || snapshot.query_group < 0) {
    return BadFile("queries: expected those of at most the " + Ints(snapshot.tokens_seen) + " tokens seen, found " +
                   Ints(snapshot.query_rows));
  }
  WINNOW_RETURN_IF_ERROR(CheckPositions("pinned positions", snapshot.pinned_positions, snapshot.next_position()));
  for (int64_t layer = 0; layer < snapshot.num_layers; ++layer) {
    for (int64_t head = 0; head < snapshot.num_kv_heads; ++head) {
      const Status status = CheckHead(snapshot, snapshot.head(layer, head));
      if (!status.ok()) {
        return BadFile("layer " + Ints(layer) + ", KV head " + Ints(snapshot.first_kv_head + head) + ": " +
                       status.message());
      }
    }
  }
  return OkStatus();
}

SequenceSnapshot MergeSnapshots(std::span<const SequenceSnapshot> parts) {
  WINNOW_CHECK(!parts.empty());
  SequenceSnapshot whole = parts[0];
  whole.heads.clear();
  whole.num_kv_heads = 0;
  for (const SequenceSnapshot& part : parts) {
    WINNOW_CHECK(part.first_kv_head == whole.num_kv_heads && part.num_layers == whole.num_layers &&
                 part.tokens_seen == whole.tokens_seen && part.evictions == whole.evictions &&
                 part.pinned_positions == whole.pinned_positions && part.query_rows == whole.query_rows &&
                 part.query_group == whole.query_group);
    whole.num_kv_heads += part.num_kv_heads;
  }
  for (int64_t layer = 0; layer < whole.num_layers; ++layer) {
    for (const SequenceSnapshot& part : parts) {
      for (int64_t head = 0; head < part.num_kv_heads; ++head) whole.heads.push_back(part.head(layer, head));
    }
  }
  return whole;
}

void WriteSnapshot(const SequenceSnapshot& snapshot, ByteWriter& writer) {
  writer.Write(snapshot.dtype);
  writer.Write(snapshot.head_dim);
  writer.Write(snapshot.num_layers);
  writer.Write(snapshot.num_kv_heads);
  writer.Write(snapshot.first_kv_head);
  writer.WriteAll(std::span<const int32_t>(snapshot.pinned_positions));
  writer.Write(snapshot.tokens_seen);
  writer.Write(snapshot.evictions);
  writer.Write(snapshot.query_rows);
  writer.Write(snapshot.query_group);
  for (const HeadSnapshot& head : snapshot.heads) {
    writer.WriteAll(std::span<const int32_t>(head.positions));
    writer.WriteAll(std::span<const uint8_t>(head.keys));
    writer.WriteAll(std::span<const uint8_t>(head.values));
    writer.WriteAll(std::span<const int64_t>(head.mass));
    writer.WriteAll(std::span<const float>(head.queries));
  }
}

SequenceSnapshot ReadSnapshot(ByteReader& reader) {
  SequenceSnapshot snapshot;
  snapshot.dtype = reader.Read<DType>();
  snapshot.head_dim = reader.Read<int64_t>();
  snapshot.num_layers = reader.Read<int64_t>();
  snapshot.num_kv_heads = reader.Read<int64_t>();
  snapshot.first_kv_head = reader.Read<int64_t>();
  snapshot.pinned_positions = reader.ReadAll<int32_t>();
  snapshot.tokens_seen = reader.Read<int64_t>();
  snapshot.evictions = reader.Read<int64_t>();
  snapshot.query_rows = reader.Read<int64_t>();
  snapshot.query_group = reader.Read<int64_t>();
  for (int64_t i = 0; i < snapshot.num_layers * snapshot.num_kv_heads; ++i) {
    HeadSnapshot& head = snapshot.heads.emplace_back();
    head.positions = reader.ReadAll<int32_t>();
    head.keys = reader.ReadAll<uint8_t>();
    head.values = reader.ReadAll<uint8_t>();
    head.mass = reader.ReadAll<int64_t>();
    head.queries = reader.ReadAll<float>();
  }
  return snapshot;
}

SequenceSnapshot SequenceCache::TakeSnapshot(bool with_mass) const {
  SequenceSnapshot snapshot{.dtype = pool_->layout().dtype,
                            .head_dim = head_dim(),
                            .num_layers = num_layers_,
                            .num_kv_heads = num_kv_heads_,
                            .first_kv_head = first_kv_head_,
                            .heads = {},
                            .pinned_positions = pinned_positions_,
                            .tokens_seen = tokens_seen_,
                            .evictions = evictions_,
                            .query_rows = queries_.num_rows(),
                            .query_group = queries_.row_floats() / head_dim()};
  // Captured until the next eviction forgets them, without a gap: so they are of the newest tokens.
  WINNOW_CHECK(queries_.num_rows() == 0 || queries_.end_token() == tokens_seen_);
  std::vector<std::vector<int64_t>> mass;
  if (with_mass) mass = ReadMass();
  // Head by head: the floats of one head are the most that is held twice.
  for (size_t index = 0; index < heads_.size(); ++index) {
    const HeadCache& head = heads_[index];
    std::vector<float> keys(size_t(head.length() * head_dim())), values(keys.size());
    pool_->ReadSlots(PhysicalSlots(head, 0), keys, values);
    snapshot.heads.push_back(
        {.positions = head.positions,
         .keys = ToElements(keys, snapshot.dtype),
         .values = ToElements(values, snapshot.dtype),
         .mass = with_mass ? std::move(mass[index]) : std::vector<int64_t>(),
         .queries = queries_.head(int64_t(index) / num_kv_heads_, int64_t(index) % num_kv_heads_)});
  }
  return snapshot;
}

Status SequenceCache::Restore(const SequenceSnapshot& snapshot) {
  WINNOW_CHECK(entries() == 0 && next_position() == 0);
  WINNOW_CHECK(snapshot.num_layers == num_layers_ && snapshot.head_dim == head_dim() &&
               snapshot.dtype == pool_->layout().dtype && snapshot.first_kv_head <= first_kv_head_ &&
               first_kv_head_ + num_kv_heads_ <= snapshot.first_kv_head + snapshot.num_kv_heads);
  const auto source = [&](size_t index) -> const HeadSnapshot& {
    const int64_t local = int64_t(index) % num_kv_heads_ + first_kv_head_ - snapshot.first_kv_head;
    return snapshot.head(int64_t(index) / num_kv_heads_, local);
  };
  int64_t needed = 0;
  for (size_t index = 0; index < heads_.size(); ++index) needed += PagesForSlots(source(index).length());
  if (needed > pool_->num_free()) {
    return OutOfMemory("KV pages for a saved cache: needed " + Ints(needed) + ", free " + Ints(pool_->num_free()) +
                       " of " + Ints(pool_->num_pages()));
  }
  std::vector<std::vector<float>> queries;
  for (size_t index = 0; index < heads_.size(); ++index) {
    const HeadSnapshot& saved = source(index);
    queries.push_back(saved.queries);
    HeadCache& head = heads_[index];
    head.positions = saved.positions;
    while (int64_t(head.pages.size()) < PagesForSlots(head.length())) head.pages.push_back(pool_->Take());
    std::vector<float> keys, values;
    AppendFloats(saved.keys, snapshot.dtype, &keys);
    AppendFloats(saved.values, snapshot.dtype, &values);
    pool_->WriteSlots(PhysicalSlots(head, 0), keys, values, saved.mass);
  }
  pinned_positions_ = snapshot.pinned_positions;
  queries_.Assign(snapshot.tokens_seen, snapshot.query_rows, std::move(queries));
  tokens_seen_ = snapshot.tokens_seen;
  evictions_ = snapshot.evictions;
  entries_evicted_ = int64_t(heads_.size()) * next_position() - entries();
  return OkStatus();
}

}  // namespace winnow
