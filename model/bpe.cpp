#include "model/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>

#include "base/check.h"
#include "base/hash.h"

namespace winnow {
namespace {

constexpr int64_t kNone = -1;
// Words are short: looking at every pair again after each merge beats a heap up to some 50 symbols.
constexpr size_t kFew = 48;

// A symbol of the piece in a doubly linked list; merged-away symbols have id kNone.
struct Symbol {
  int64_t id;
  int64_t previous;
  int64_t next;
};

// A merge that was possible when it was queued. It is stale when the symbols have changed since.
struct Candidate {
  int32_t rank;
  int64_t position;  // of the left symbol
  int32_t left, right, merged;

  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

}  // namespace

void BpeMerges::Reserve(size_t num_rules) {
  const size_t num_places = std::bit_ceil(2 * num_rules + 2);
  if (num_places > table_.size()) Grow(num_places);
}

void BpeMerges::Grow(size_t num_places) {
  std::vector<Rule> old(num_places, Rule{0, -1, 0});
  old.swap(table_);
  for (const Rule& rule : old) {
    if (rule.rank >= 0) table_[PlaceOf(rule.pair)] = rule;
  }
}

size_t BpeMerges::PlaceOf(uint64_t pair) const {
  const size_t mask = table_.size() - 1;
  size_t place = size_t(Mix64(pair)) & mask;
  while (table_[place].rank >= 0 && table_[place].pair != pair) place = (place + 1) & mask;
  return place;
}

bool BpeMerges::Add(int32_t left, int32_t right, int32_t rank, int32_t merged) {
  WINNOW_DCHECK(rank >= 0);
  Reserve(num_rules_ + 1);
  Rule& rule = table_[PlaceOf(Pair(left, right))];
  if (rule.rank >= 0) return false;
  rule = {Pair(left, right), rank, merged};
  ++num_rules_;
  return true;
}

const BpeMerges::Rule* BpeMerges::Find(int32_t left, int32_t right) const {
  if (table_.empty()) return nullptr;
  const Rule& rule = table_[PlaceOf(Pair(left, right))];
  return rule.rank < 0 ? nullptr : &rule;
}

void BpeMerges::Apply(std::span<const int32_t> symbols, std::vector<int32_t>* ids) const {
  if (symbols.size() <= kFew) {
    ApplyToFew(symbols, ids);
  } else {
    ApplyToMany(symbols, ids);
  }
}

void BpeMerges::ApplyToFew(std::span<const int32_t> symbols, std::vector<int32_t>* ids) const {
  constexpr int32_t kNoRule = std::numeric_limits<int32_t>::max();
  std::array<int32_t, kFew> left, rank, merged;  // of the pair that begins at each symbol
  size_t size = symbols.size();
  std::copy(symbols.begin(), symbols.end(), left.begin());
  const auto look = [&](size_t i) {
    const Rule* rule = i + 1 < size ? Find(left[i], left[i + 1]) : nullptr;
    rank[i] = rule == nullptr ? kNoRule : rule->rank;
    merged[i] = rule == nullptr ? 0 : rule->merged;
  };
  for (size_t i = 0; i < size; ++i) look(i);
  while (size > 1) {
    const size_t best = size_t(std::min_element(rank.begin(), rank.begin() + std::ptrdiff_t(size)) - rank.begin());
    if (rank[best] == kNoRule) break;
    left[best] = merged[best];
    for (size_t i = best + 1; i + 1 < size; ++i) {
      left[i] = left[i + 1];
      rank[i] = rank[i + 1];
      merged[i] = merged[i + 1];
    }
    --size;
    look(best);
    if (best > 0) look(best - 1);
  }
  ids->insert(ids->end(), left.begin(), left.begin() + std::ptrdiff_t(size));
}

void BpeMerges::ApplyToMany(std::span<const int32_t> symbols, std::vector<int32_t>* ids) const {
  std::vector<Symbol> list(symbols.size());
  std::vector<Candidate> heap;
  heap.reserve(symbols.size());
  const int64_t size = int64_t(symbols.size());
  const auto candidate_at = [&](int64_t position, Candidate* candidate) {
    const Symbol& left = list[size_t(position)];
    if (left.next == kNone) return false;
    const int32_t left_id = int32_t(left.id);
    const int32_t right_id = int32_t(list[size_t(left.next)].id);
    const Rule* rule = Find(left_id, right_id);
    if (rule == nullptr) return false;
    *candidate = {rule->rank, position, left_id, right_id, rule->merged};
    return true;
  };
  for (int64_t i = 0; i < size; ++i) list[size_t(i)] = {symbols[size_t(i)], i - 1, i + 1 == size ? kNone : i + 1};
  Candidate candidate;
  for (int64_t i = 0; i < size; ++i) {
    if (candidate_at(i, &candidate)) heap.push_back(candidate);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto push = [&](int64_t position) {
    if (position == kNone || !candidate_at(position, &candidate)) return;
    heap.push_back(candidate);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    const Candidate best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    Symbol& left = list[size_t(best.position)];
    if (left.id != best.left || left.next == kNone || list[size_t(left.next)].id != best.right) continue;
    Symbol& right = list[size_t(left.next)];
    left.id = best.merged;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kNone) list[size_t(left.next)].previous = best.position;
    push(left.previous);
    push(best.position);
  }
  for (int64_t i = size == 0 ? kNone : 0; i != kNone; i = list[size_t(i)].next) {
    ids->push_back(int32_t(list[size_t(i)].id));
  }
}

}  // namespace winnow
