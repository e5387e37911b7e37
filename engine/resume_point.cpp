#include "engine/resume_point.h"

#include <utility>
#include <vector>

namespace winnow {

int64_t SlotsPerHead(const ResumePoint& point, const EvictionSettings& eviction) {
  // However heads divide their budgets, evictions leave all of them together the same number of entries.
  const int64_t more = point.cache.evictions > 0 ? eviction.larger_heads : 0;
  return (point.cache.entries() - more) / int64_t(point.cache.heads.size());
}

void WriteResumePoint(const ResumePoint& point, ByteWriter& writer) {
  WriteSnapshot(point.cache, writer);
  writer.Write(point.kept_hash);
  writer.Write(point.pages_freed);
}

ResumePoint ReadResumePoint(ByteReader& reader) {
  ResumePoint point;
  point.cache = ReadSnapshot(reader);
  point.kept_hash = reader.Read<uint64_t>();
  point.pages_freed = reader.Read<int64_t>();
  return point;
}

std::shared_ptr<const ResumePoint> GatherResumePoint(Communicator& communicator, const ResumePoint& mine,
                                                     bool is_counted) {
  const bool is_front = communicator.rank() == 0;
  auto whole = std::make_shared<ResumePoint>();
  std::vector<SequenceSnapshot> parts;
  // One rank after the other, so that nobody but rank 0 ever holds more than one other rank's part.
  for (int rank = 0; rank < communicator.size(); ++rank) {
    std::vector<std::byte> bytes;
    if (rank == communicator.rank() && is_counted) {
      ByteWriter writer;
      WriteResumePoint(mine, writer);
      bytes = writer.Take();
    }
    communicator.Broadcast(bytes, rank);
    if (!is_front || bytes.empty()) continue;
    ByteReader reader(bytes);
    ResumePoint part = ReadResumePoint(reader);
    WINNOW_CHECK(reader.AtEnd());
    parts.push_back(std::move(part.cache));
    whole->kept_hash += part.kept_hash;
    whole->pages_freed += part.pages_freed;
  }
  if (!is_front) return nullptr;
  whole->cache = MergeSnapshots(parts);
  return whole;
}

}  // namespace winnow
