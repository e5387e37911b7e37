// Exact distributed selection: the smallest set of the highest keys, over all ranks, whose weights reach a target. By
// integer histograms over the digits of the key (docs/contracts.md), so the result is the same for any rank count.
// Serves top-k (weight 1, target k), top-p (weight = probability mass) and evictions that heads of several ranks share.
// Collective; engine thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dist/communicator.h"

namespace winnow {

// An order-preserving integer form of a float that is not NaN: a < b gives OrderedKey(a) < OrderedKey(b); -0 equals +0.
uint32_t OrderedKey(float value);

// Where an entry stands in a selection: the higher score first, of equal scores the higher order. Over all ranks no two
// entries have the same key: `order` holds what tells equal scores apart (a position, a token id turned around).
struct SelectKey {
  uint32_t score = 0;
  uint64_t order = 0;

  auto operator<=>(const SelectKey&) const = default;
};

// This rank's part of one selection.
struct SelectProblem {
  std::span<const SelectKey> keys;
  std::span<const int64_t> weights = {};  // of the keys, not negative; without is_weighted every weight is 1
  // The same on all ranks:
  bool is_weighted = false;  // a rank without keys has no weights to tell by
  int64_t target = 0;        // everything is kept if the total is not above it
  int order_bits = 64;       // how many low bits of `order` are in use, a multiple of 8
};

// Solves all problems together; keep the entries whose key is not below the result. Each pass is an all-reduce of 2,048
// bytes a problem: 4 for the score, then one per byte of order, until every problem is decided (weighted ones after the
// last).
std::vector<SelectKey> ExactSelect(Communicator& communicator, std::span<const SelectProblem> problems);

}  // namespace winnow
