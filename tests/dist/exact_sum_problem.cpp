#include "tests/dist/exact_sum_problem.h"

#include <numeric>

#include "base/philox.h"
#include "dist/exact_sum.h"

namespace winnow {
namespace {

// A buffer that holds `values`.
template <class T>
Buffer ToDevice(Backend& backend, const std::vector<T>& values) {
  Buffer buffer = backend.Allocate(int64_t(values.size() * sizeof(T))).value();
  backend.CopyToDevice(buffer.View(DType::kF32, {int64_t(values.size())}), std::as_bytes(std::span(values)));
  return buffer;
}

}  // namespace

ExactSumProblem MakeExactSumProblem(uint32_t seed) {
  const auto fill = [&](int64_t count, uint32_t what, float scale) {
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i) {
      values[i] = (OpenUnitFloat(Philox(seed, {uint32_t(i), what, 0, 0})[0]) - 0.5f) * scale;
    }
    return values;
  };
  return {fill(kRows * kInputs, 0, 8.0f), fill(kOutputs * kInputs, 1, 0.2f), fill(kRows * kOutputs, 2, 2.0f)};
}

std::vector<uint32_t> RunExactSum(Communicator& communicator, const ExactSumProblem& problem, Range segments) {
  const Range columns{segments.begin * kSegment, segments.end * kSegment};
  std::vector<float> own_columns;  // of x, contiguous
  for (int64_t row = 0; row < kRows; ++row) {
    const auto begin = problem.x.begin() + row * kInputs;
    own_columns.insert(own_columns.end(), begin + columns.begin, begin + columns.end);
  }
  std::vector<int64_t> all_rows(kOutputs);
  std::iota(all_rows.begin(), all_rows.end(), 0);

  // The guard ends the program if a rank's memory is reached outside of an op or of the sum.
  const auto owned = MakeGuardBackend(MakeReferenceBackend(ReferenceArithmetic::kQuantised));
  Backend& backend = *owned;
  const auto weight = backend
                          .Pack({.dtype = DType::kF32,
                                 .data = std::as_bytes(std::span(problem.weight)),
                                 .file_columns = kInputs,
                                 .rows = all_rows,
                                 .column_begin = columns.begin,
                                 .column_end = columns.end})
                          .value();
  Buffer x = ToDevice(backend, own_columns), residual = ToDevice(backend, problem.residual);
  Buffer sums = backend.Allocate(kRows * (kOutputs + 1) * 8).value();
  const Tensor out = residual.View(DType::kF32, {kRows, kOutputs});
  ExactSum(backend, communicator)
      .MatMulInto(x.View(DType::kF32, {kRows, columns.size()}), *weight, kSegment,
                  sums.View(DType::kI64, {kRows, kOutputs + 1}), out);
  std::vector<uint32_t> bits(out.num_elements());
  backend.CopyToHost(std::as_writable_bytes(std::span(bits)), out);
  return bits;
}

}  // namespace winnow
