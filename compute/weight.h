// Weight matrices: where they come from (rows of a mapped file) and what a backend makes of them (its own packed
// layout).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/dtype.h"

namespace winnow {

// A part of a matrix in file order: chosen rows, and a range of columns. The bytes are host memory that outlives Pack
// only.
struct WeightSource {
  DType dtype;
  std::span<const std::byte> data;  // [file_rows][columns] in blocks of dtype, row-major
  int64_t file_columns;
  std::vector<int64_t> rows;  // file rows to take, in the order of the packed matrix
  int64_t column_begin = 0;   // both multiples of 32; they may lie inside a block of 256
  int64_t column_end = 0;
};

// A matrix [rows, columns] packed by one Backend, read-only afterwards. y = x W^T: rows are outputs, columns are
// inputs.
class Weight {
 public:
  Weight(DType dtype, int64_t rows, int64_t columns) : dtype_(dtype), rows_(rows), columns_(columns) {}
  virtual ~Weight() = default;

  DType dtype() const { return dtype_; }  // the file's format; the packed layout is the backend's business
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  virtual int64_t bytes() const = 0;  // packed size, for the report of work and memory

 private:
  DType dtype_;
  int64_t rows_, columns_;
};

}  // namespace winnow
