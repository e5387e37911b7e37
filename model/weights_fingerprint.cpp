#include "model/weights_fingerprint.h"

#include <algorithm>

namespace winnow {

Status AddWeights(const TensorSource& weights, FileHasher* hasher) {
  constexpr size_t kSampleBytes = 64, kSamples = 4;
  for (const TensorInfo* tensor : weights.tensors()) {
    hasher->Add(*tensor);
    WINNOW_ASSIGN_OR_RETURN(const TensorRows rows, weights.Rows(*tensor, {0}));
    const size_t bytes = std::min(kSampleBytes, rows.data.size()), room = rows.data.size() - bytes;
    for (size_t i = 0; i < kSamples; ++i) hasher->Add(rows.data.data() + room / (kSamples - 1) * i, bytes);
  }
  return OkStatus();
}

}  // namespace winnow
