// Where a model's weights come from: named matrices and vectors of a file, of several files, or made from a counter.
// Names are those of GGUF files ("blk.0.attn_q.weight") whatever the format, so that one loader serves all of them.
// Owned by whoever opened the model; immutable, so any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compute/dtype.h"

namespace winnow {

struct TensorInfo {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;  // GGUF order: shape[0] = columns, contiguous; 1 to 4 dimensions, each >= 1
  int64_t num_bytes;
};

// Some rows of a tensor: data[rows[i]] is what was asked for as row i.
struct TensorRows {
  std::span<const std::byte> data;  // [n][columns] in blocks of the tensor's dtype, row-major
  std::vector<int64_t> rows;
  std::vector<std::byte> made;  // holds `data` where no file does
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // nullptr when there is none of that name.
  virtual const TensorInfo* Find(std::string_view name) const = 0;
  // All of them, in the order in which they are best read.
  virtual std::vector<const TensorInfo*> tensors() const = 0;
  // Rows of one of this source's tensors (a vector is one row); 0 <= row < rows of the tensor. Valid as long as the
  // source and the result live. OutOfMemory where rows are made and there is no room.
  virtual Result<TensorRows> Rows(const TensorInfo& tensor, std::vector<int64_t> rows) const = 0;
  // A tensor has been read, and is not needed for now: what a source keeps of it in memory may go.
  virtual void Release(const TensorInfo&) const {}
  // What the file calls a tensor, for messages.
  virtual std::string NameInFile(std::string_view name) const { return std::string(name); }
  // BadFile(path: message), for those who check what the source holds.
  virtual Status Bad(const std::string& message) const = 0;

  // BadFile when there is none of that name.
  Result<const TensorInfo*> Get(std::string_view name) const {
    const TensorInfo* tensor = Find(name);
    if (tensor == nullptr) return Bad("expected tensor " + NameInFile(name) + ", found none");
    return tensor;
  }
  int64_t total_bytes() const {
    int64_t sum = 0;
    for (const TensorInfo* tensor : tensors()) sum += tensor->num_bytes;
    return sum;
  }
};

}  // namespace winnow
