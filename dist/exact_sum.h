// Sums that cross ranks, exact and free of order: partials become 64-bit fixed point and are added as integers, so rank
// count, reduction tree and collective do not matter (contract E1). The steps of every tensor class stand here and in
// docs/contracts.md. Engine thread; collective.
#pragma once

#include "compute/backend.h"
#include "dist/communicator.h"

namespace winnow {

// Hidden states: steps of 2^-36, partials below 2^20. 2^20 * 2^36 = 2^56 leaves 2^7 = 128 partials of headroom in
// int64.
constexpr FixedPoint kHiddenFixedPoint{0x1p36f, 0x1p20f};
// Probabilities, exp sums: steps of 2^-40; 2^23 terms of at most 1 fit.
constexpr double kProbabilitySteps = 0x1p40;

// Row-parallel product with an exact sum over ranks: residual [rows, N] += x W^T, where x holds this rank's columns of
// K. Range and NaN are judged per row, and the verdict travels in the same all-reduce: such a row becomes NaN on every
// rank.
class ExactSum {
 public:
  ExactSum(Backend& backend, Communicator& communicator) : backend_(backend), communicator_(communicator) {}

  // sums [rows, N + 1] i64 is scratch of the caller. One all-reduce of rows * (N + 1) * 8 bytes.
  void MatMulInto(const Tensor& x, const Weight& weight, int64_t segment_columns, const Tensor& sums,
                  const Tensor& residual);

 private:
  Backend& backend_;
  Communicator& communicator_;
};

}  // namespace winnow
