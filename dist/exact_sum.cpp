#include "dist/exact_sum.h"

namespace winnow {

void ExactSum::MatMulInto(const Tensor& x, const Weight& weight, int64_t segment_columns, const Tensor& sums,
                          const Tensor& residual) {
  backend_.MatMulSegmented(x, weight, segment_columns, kHiddenFixedPoint, sums);
  communicator_.AllReduce(backend_, sums, ReduceOp::kSum);
  backend_.AddFixedPoint(sums, kHiddenFixedPoint, residual);
}

}  // namespace winnow
