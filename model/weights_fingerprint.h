// What tells a model's weights from another's of the same shape, without reading all of them. Any thread.
#pragma once

#include "model/file_hasher.h"
#include "model/tensor_source.h"

namespace winnow {

// Adds name, type and shape of every tensor, and 64 bytes at four places of each: a base model and its fine-tune, or
// two steps of a training run, have all else in common. Some four pages a tensor are read (1,200 of a model of 300
// tensors), so this is a sample: files that differ elsewhere alone pass for the same. OutOfMemory as the source's Rows.
Status AddWeights(const TensorSource& weights, FileHasher* hasher);

}  // namespace winnow
