// How much of a key's direction other keys of its head hold already: the part of R-KV that is quadratic in the slots.
// Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

// For each slot i the mean over all slots r of C[r, i], where C is the cosines of the keys with 0 on the diagonal, and
// in every row r the newest column with C[r, i] > threshold is set to 0: of near-duplicates the newest is not charged
// for it. keys [slots][head_dim]; a key's norm counts as norm + 1e-8. Every sum has one order, whatever machine adds.
// A key that is not finite makes means NaN.
std::vector<double> MeanCosines(std::span<const float> keys, int64_t head_dim, float threshold);

}  // namespace winnow
