// Byte-pair merging by rank (Sennrich et al. 2016): the merge rules of a vocabulary and how they apply to one piece of
// text. Filled once by its owner, the Tokenizer, and then immutable: any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

class BpeMerges {
 public:
  // Room for this many rules, so that filling never rehashes.
  void Reserve(size_t num_rules);
  // `left` followed by `right` may become `merged`; lower ranks go first. Ids and ranks are not negative. False when
  // the pair already has a rule.
  bool Add(int32_t left, int32_t right, int32_t rank, int32_t merged);

  // Merges `symbols` (token ids) until no rule applies, always the pair of lowest rank, the leftmost first among
  // equals, and appends the ids to `ids`. O(n log n) for n symbols.
  void Apply(std::span<const int32_t> symbols, std::vector<int32_t>* ids) const;

 private:
  struct Rule {
    uint64_t pair;
    int32_t rank;  // negative: a free place of the table
    int32_t merged;
  };
  static uint64_t Pair(int32_t left, int32_t right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }
  size_t PlaceOf(uint64_t pair) const;
  // nullptr: no rule.
  const Rule* Find(int32_t left, int32_t right) const;
  void Grow(size_t num_places);
  void ApplyToFew(std::span<const int32_t> symbols, std::vector<int32_t>* ids) const;
  void ApplyToMany(std::span<const int32_t> symbols, std::vector<int32_t>* ids) const;

  std::vector<Rule> table_;  // open addressing, a power of two of places, at most half of them taken
  size_t num_rules_ = 0;
};

}  // namespace winnow
