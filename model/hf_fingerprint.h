// Whether two ranks, or two runs, opened the same model of config.json and the files beside it. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "model/tensor_source.h"

namespace winnow {

// Of the configuration's file and the tokenizer's files in `directory`.
uint64_t HfFilesFingerprint(const std::string& config_path, const std::string& directory);

// Of those, and of the weights (model/weights_fingerprint.h).
uint64_t HfFingerprint(const std::string& directory, const TensorSource& weights);

}  // namespace winnow
