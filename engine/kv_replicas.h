// The ranks that hold the same KV head as this one (dist/shard.h), each with a part of its query heads: what all of
// these have seen, put together, so that every replica scores by the numbers of one rank and keeps the same slots. Sums
// are of integers or of bits that one rank has and the others leave 0, maxima have no order: exact. Engine thread;
// collective.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dist/communicator.h"
#include "dist/shard.h"
#include "kv/snapshot.h"

namespace winnow {

// What the query heads of a sequence's KV heads have left behind, [layer][KV head of this rank]; an empty list was not
// asked for. Of this rank's query heads, or of whole groups.
struct GroupStatistics {
  std::vector<std::vector<int64_t>> mass;       // [length]
  std::vector<std::vector<float>> queries;      // [rows][query heads][head_dim]
  std::vector<std::vector<double>> query_sums;  // as QuerySums::head
};

class KvReplicas {
 public:
  // No collective yet: the ranks find each other at the first use. communicator must outlive it.
  KvReplicas(Communicator& communicator, const ShardPlan& plan);

  // Whether any KV head of the model has replicas. If so, all ranks of the communicator call each method below that is
  // collective in the same order, also those that hold a head alone; if not, these methods leave everything as it is,
  // and nothing crosses ranks.
  bool exist() const { return exist_; }
  // Whether this rank's heads are counted here, and nowhere else.
  bool is_first() const { return is_first_; }
  int64_t group() const { return group_; }  // query heads of a KV head, on all ranks together

  // The larger of all replicas' numbers, place by place; not NaN. Collective: one all-reduce of 4 bytes a number.
  void TakeMax(std::span<float> values);
  // The sum of them. Collective: 8 bytes a number.
  void Sum(std::span<int64_t> values);
  // From this rank's query heads to whole groups, for all sequences together. Collective: at most one all-reduce for
  // each of mass (8 bytes a slot), queries (4 bytes a number of the whole group) and sums (8 bytes likewise).
  void Complete(std::span<GroupStatistics> parts, int64_t head_dim);

  // A snapshot of this rank's cache made one of whole groups. Collective, as above.
  void Complete(SequenceSnapshot* snapshot);
  // This rank's part of a snapshot of whole groups: its heads with its own queries, and with the mass where it is
  // counted. No collective.
  SequenceSnapshot PartOf(const SequenceSnapshot& whole) const;

  // Of this rank with its replicas alone; the communicator above does not count them. Rank 0 never has fewer replicas
  // than others.
  CollectiveCounters counters() const;

 private:
  Communicator& Ranks();
  // [rows][this rank's query heads][width] to [rows][group][width].
  template <class T>
  std::vector<T> WholeGroups(const std::vector<T>& own, int64_t width);

  Communicator& communicator_;
  const bool exist_, is_first_;
  const Range kv_heads_;
  const int64_t group_;
  const Range own_;                      // of the group, where there are replicas
  std::unique_ptr<Communicator> ranks_;  // null until it is needed
};

}  // namespace winnow
