#include "model/bpe.h"

#include <algorithm>
#include <functional>

namespace winnow {
namespace {

constexpr int64_t kNone = -1;

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

bool BpeMerges::Add(int32_t left, int32_t right, int32_t rank, int32_t merged) {
  return rules_.emplace(Pair(left, right), Rule{rank, merged}).second;
}

const BpeMerges::Rule* BpeMerges::Find(int32_t left, int32_t right) const {
  const auto found = rules_.find(Pair(left, right));
  return found == rules_.end() ? nullptr : &found->second;
}

void BpeMerges::Apply(std::span<const int32_t> symbols, std::vector<int32_t>* ids) const {
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
