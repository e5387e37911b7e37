// Whether two ranks opened the same model file, as far as 64 bits can tell without reading all weights. Any thread.
#pragma once

#include <cstdint>

#include "model/gguf.h"

namespace winnow {

// Of the metadata (keys, types, values) and the tensor table (names, dtypes, shapes, sizes): whatever decides how the
// ranks work together; and a sample of the weights (model/weights_fingerprint.h).
uint64_t FingerprintOf(const GgufFile& file);

}  // namespace winnow
