// Byte-pair merging by rank (Sennrich et al. 2016): the merge rules of a vocabulary and how they apply to one piece of
// text. Filled once by its owner, the Tokenizer, and then immutable: any thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

namespace winnow {

class BpeMerges {
 public:
  // `left` followed by `right` may become `merged`; lower ranks go first. False when the pair already has a rule.
  bool Add(int32_t left, int32_t right, int32_t rank, int32_t merged);

  // Merges `symbols` (token ids) until no rule applies, always the pair of lowest rank, the leftmost first among
  // equals, and appends the ids to `ids`. O(n log n) for n symbols.
  void Apply(std::span<const int32_t> symbols, std::vector<int32_t>* ids) const;

 private:
  struct Rule {
    int32_t rank;
    int32_t merged;
  };
  struct PairHash {
    size_t operator()(uint64_t pair) const { return Mix64(pair); }
  };
  static uint64_t Pair(int32_t left, int32_t right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }
  const Rule* Find(int32_t left, int32_t right) const;

  std::unordered_map<uint64_t, Rule, PairHash> rules_;
};

}  // namespace winnow
