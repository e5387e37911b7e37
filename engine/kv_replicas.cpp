#include "engine/kv_replicas.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace winnow {
namespace {

// The lists of all parts one after the other, and back.
template <class T>
using Lists = std::vector<std::vector<T>> GroupStatistics::*;

template <class T>
std::vector<T> Joined(std::span<const GroupStatistics> parts, Lists<T> lists) {
  std::vector<T> all;
  for (const GroupStatistics& part : parts) {
    for (const std::vector<T>& list : part.*lists) all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

// Each list takes `growth` numbers for every `shrink` that it has.
template <class T>
void Divide(const std::vector<T>& all, int64_t growth, int64_t shrink, Lists<T> lists,
            std::span<GroupStatistics> parts) {
  auto at = all.begin();
  for (GroupStatistics& part : parts) {
    for (std::vector<T>& list : part.*lists) {
      const auto end = at + int64_t(list.size()) / shrink * growth;
      list.assign(at, end);
      at = end;
    }
  }
  WINNOW_CHECK(at == all.end());
}

// QuerySums::head holds all first moments before all second ones: turned into one row a query head, and back.
std::vector<double> RowsOfHeads(const std::vector<double>& sums, int64_t query_heads, int64_t dim) {
  std::vector<double> rows;
  for (auto at = sums.begin(); at != sums.end(); at += query_heads * dim * (dim + 1)) {
    for (int64_t g = 0; g < query_heads; ++g) {
      rows.insert(rows.end(), at + g * dim, at + (g + 1) * dim);
      const auto second = at + query_heads * dim + g * dim * dim;
      rows.insert(rows.end(), second, second + dim * dim);
    }
  }
  return rows;
}

std::vector<double> SumsOfRows(const std::vector<double>& rows, int64_t query_heads, int64_t dim) {
  const int64_t row_size = dim * (dim + 1);
  std::vector<double> sums;
  for (auto at = rows.begin(); at != rows.end(); at += query_heads * row_size) {
    for (int64_t g = 0; g < query_heads; ++g) sums.insert(sums.end(), at + g * row_size, at + g * row_size + dim);
    for (int64_t g = 0; g < query_heads; ++g) sums.insert(sums.end(), at + g * row_size + dim, at + (g + 1) * row_size);
  }
  return sums;
}

}  // namespace

KvReplicas::KvReplicas(Communicator& communicator, const ShardPlan& plan)
    : communicator_(communicator),
      exist_(plan.has_replicas()),
      is_first_(plan.is_first_replica(communicator.rank())),
      kv_heads_(plan.kv_heads[size_t(communicator.rank())]),
      group_(plan.query_heads_per_kv_head),
      own_{plan.query_heads(communicator.rank()).begin - kv_heads_.begin * group_,
           plan.query_heads(communicator.rank()).end - kv_heads_.begin * group_} {
  WINNOW_CHECK(!exist_ || kv_heads_.size() == 1);
}

Communicator& KvReplicas::Ranks() {
  if (ranks_ == nullptr) ranks_ = communicator_.Split(int(kv_heads_.begin));
  return *ranks_;
}

CollectiveCounters KvReplicas::counters() const {
  return ranks_ == nullptr ? CollectiveCounters() : ranks_->counters();
}

void KvReplicas::TakeMax(std::span<float> values) {
  if (exist_) Ranks().AllReduce(values, ReduceOp::kMax);
}

void KvReplicas::Sum(std::span<int64_t> values) {
  if (exist_) Ranks().AllReduce(values, ReduceOp::kSum);
}

template <class T>
std::vector<T> KvReplicas::WholeGroups(const std::vector<T>& own, int64_t width) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  static_assert(sizeof(T) == sizeof(Bits));
  const size_t own_floats = size_t(own_.size() * width), all_floats = size_t(group_ * width);
  WINNOW_CHECK(own.size() % own_floats == 0);
  const size_t rows = own.size() / own_floats;
  // Every query head is on one rank; the others add zero bits.
  std::vector<Bits> bits(rows * all_floats, 0);
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(bits.data() + row * all_floats + size_t(own_.begin * width), own.data() + row * own_floats,
                own_floats * sizeof(T));
  }
  Ranks().AllReduce(std::span<Bits>(bits), ReduceOp::kSum);
  std::vector<T> whole(bits.size());
  std::memcpy(whole.data(), bits.data(), bits.size() * sizeof(T));
  return whole;
}

void KvReplicas::Complete(std::span<GroupStatistics> parts, int64_t head_dim) {
  if (!exist_) return;
  // Whether there is anything is the same on all ranks: policies and schedules are.
  std::vector<int64_t> mass = Joined(parts, &GroupStatistics::mass);
  if (!mass.empty()) {
    Sum(mass);
    Divide(mass, 1, 1, &GroupStatistics::mass, parts);
  }
  const std::vector<float> queries = Joined(parts, &GroupStatistics::queries);
  if (!queries.empty()) {
    Divide(WholeGroups(queries, head_dim), group_, own_.size(), &GroupStatistics::queries, parts);
  }
  const std::vector<double> sums = Joined(parts, &GroupStatistics::query_sums);
  if (!sums.empty()) {
    const auto rows = WholeGroups(RowsOfHeads(sums, own_.size(), head_dim), head_dim * (head_dim + 1));
    Divide(SumsOfRows(rows, group_, head_dim), group_, own_.size(), &GroupStatistics::query_sums, parts);
  }
}

void KvReplicas::Complete(SequenceSnapshot* snapshot) {
  if (!exist_) return;
  GroupStatistics part;
  for (HeadSnapshot& head : snapshot->heads) {
    part.mass.push_back(std::move(head.mass));
    part.queries.push_back(std::move(head.queries));
  }
  Complete({&part, 1}, snapshot->head_dim);
  for (size_t i = 0; i < snapshot->heads.size(); ++i) {
    snapshot->heads[i].mass = std::move(part.mass[i]);
    snapshot->heads[i].queries = std::move(part.queries[i]);
  }
  if (snapshot->query_rows > 0) snapshot->query_group = group_;
}

SequenceSnapshot KvReplicas::PartOf(const SequenceSnapshot& whole) const {
  WINNOW_CHECK(exist_);
  SequenceSnapshot part{.dtype = whole.dtype,
                        .head_dim = whole.head_dim,
                        .num_layers = whole.num_layers,
                        .num_kv_heads = 1,
                        .first_kv_head = kv_heads_.begin,
                        .heads = {},
                        .pinned_positions = whole.pinned_positions,
                        .tokens_seen = whole.tokens_seen,
                        .evictions = whole.evictions,
                        .query_rows = whole.query_rows,
                        .query_group = whole.query_rows > 0 ? own_.size() : 0};
  const int64_t row_floats = group_ * whole.head_dim;
  for (int64_t layer = 0; layer < whole.num_layers; ++layer) {
    HeadSnapshot head = whole.head(layer, kv_heads_.begin - whole.first_kv_head);
    if (!is_first_) std::fill(head.mass.begin(), head.mass.end(), 0);
    std::vector<float> own;
    for (int64_t row = 0; row < whole.query_rows; ++row) {
      const auto begin = head.queries.begin() + row * row_floats;
      own.insert(own.end(), begin + own_.begin * whole.head_dim, begin + own_.end * whole.head_dim);
    }
    head.queries = std::move(own);
    part.heads.push_back(std::move(head));
  }
  return part;
}

}  // namespace winnow
