#include "policies/key_redundancy.h"

#include <algorithm>
#include <cmath>

#include "policies/slot_dots.h"
#include "policies/sum_of_squares.h"

namespace winnow {
namespace {

constexpr int64_t kSumLanes = 8;

// Keys of length 1, [slots][head_dim] with zeros up to a whole panel of rows.
std::vector<float> UnitKeys(std::span<const float> keys, int64_t head_dim) {
  const int64_t slots = int64_t(keys.size()) / head_dim;
  std::vector<float> unit(size_t((slots + kDotRows - 1) / kDotRows * kDotRows * head_dim), 0.0f);
  for (int64_t slot = 0; slot < slots; ++slot) {
    const float* key = keys.data() + slot * head_dim;
    const double norm = std::sqrt(SumOfSquares({key, size_t(head_dim)})) + 1e-8;
    for (int64_t i = 0; i < head_dim; ++i) unit[size_t(slot * head_dim + i)] = float(double(key[i]) / norm);
  }
  return unit;
}

// What has been learned about each slot from the half of C above its diagonal: C is symmetric by bits, so that row i
// of the half tells of columns, and of column i.
struct Columns {
  std::vector<double> sums;     // [padded slots] of C[r, i] over r < i; over all r once row i is done
  std::vector<int32_t> newest;  // [padded slots] newest r < i with C[r, i] > threshold; over all r likewise; -1: none
};

// Row `slot` of C from column `first` (a multiple of 16, at most slot) on, as dot products: 0 up to the diagonal.
void AddRow(std::span<float> row, int64_t first, int64_t slot, float threshold, Columns* columns) {
  std::fill(row.begin() + first, row.begin() + slot + 1, 0.0f);
  const int64_t padded = int64_t(row.size());
  double* sums = columns->sums.data();
  int32_t* newest = columns->newest.data();
  double lanes[kSumLanes] = {};
  for (int64_t column = first; column < padded; column += kSumLanes) {
    for (int64_t lane = 0; lane < kSumLanes; ++lane) {
      const double cosine = double(row[size_t(column + lane)]);
      sums[column + lane] += cosine;
      lanes[lane] += cosine;
    }
  }
  int32_t found = -1;
  for (int64_t column = first; column < padded; ++column) {
    const bool is_near = row[size_t(column)] > threshold;
    newest[column] = is_near ? int32_t(slot) : newest[column];
    found = std::max(found, is_near ? int32_t(column) : -1);
  }
  for (double lane : lanes) sums[slot] += lane;
  if (found >= 0) newest[slot] = found;
}

}  // namespace

std::vector<double> MeanCosines(std::span<const float> keys, int64_t head_dim, float threshold) {
  const int64_t slots = int64_t(keys.size()) / head_dim;
  const std::vector<float> unit = UnitKeys(keys, head_dim);
  const SlotTiles tiles({unit.data(), size_t(slots * head_dim)}, head_dim);
  const int64_t padded = tiles.padded_slots();
  Columns columns{std::vector<double>(size_t(padded), 0.0), std::vector<int32_t>(size_t(padded), -1)};
  std::vector<float> panel(size_t(kDotRows * padded));  // a few rows of C: they stay in the first-level cache
  for (int64_t begin = 0; begin < slots; begin += kDotRows) {
    const int64_t first = begin / kDotSlots * kDotSlots;
    DotRows(unit.data() + begin * head_dim, tiles, first, panel.data());
    for (int64_t slot = begin; slot < std::min(begin + kDotRows, slots); ++slot) {
      AddRow(std::span(panel).subspan(size_t((slot - begin) * padded), size_t(padded)), first, slot, threshold,
             &columns);
    }
  }
  for (int64_t row = 0; row < slots; ++row) {
    const int64_t spared = columns.newest[size_t(row)];
    if (spared < 0) continue;
    float cosine = 0;  // as DotRows adds it
    for (int64_t i = 0; i < head_dim; ++i)
      cosine += unit[size_t(row * head_dim + i)] * unit[size_t(spared * head_dim + i)];
    columns.sums[size_t(spared)] -= double(cosine);
  }
  columns.sums.resize(size_t(slots));
  for (double& sum : columns.sums) sum /= double(slots);
  return columns.sums;
}

}  // namespace winnow
