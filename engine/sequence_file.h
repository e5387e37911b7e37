// A sequence with its cache as a file (safetensors): what `--save-kv` writes and `--load-kv` reads, on any number of
// ranks. docs/contracts.md describes the format. Rank 0, or any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/request.h"
#include "engine/resume_point.h"
#include "model/model_config.h"
#include "model/transformer.h"

namespace winnow {

// What a cache is bound to: another model or another arithmetic would read it as something else.
struct SequenceFileModel {
  ModelConfig config;
  uint64_t fingerprint = 0;  // Checkpoint::Fingerprint
  DType kv_cache_dtype = DType::kBF16;
  Numerics numerics = Numerics::kExact;
};

struct SavedSequence {
  std::vector<int32_t> tokens;  // prompt and answer; the last one is not in the cache yet
  int64_t prompt_tokens = 0;    // the first of them
  EvictionSettings eviction;    // resolved, in tokens
  uint64_t seed = 0;
  int64_t choice_index = 0;
  std::shared_ptr<const ResumePoint> resume;
};

// BadFile if it cannot be written; what was at `path` is then still there.
Status SaveSequence(const std::string& path, const SequenceFileModel& model, const SavedSequence& saved);

// BadFile, naming what was expected and found, for a file of another model, dtype, numerics or format version, and for
// one that no run could have written: all of it is checked before any of it is used.
Result<SavedSequence> LoadSequence(const std::string& path, const SequenceFileModel& model);

// What the file says of its keys and values, "bf16" or "f32", and nothing else of it. BadFile if it says nothing.
Result<std::string> SavedCacheDType(const std::string& path);

}  // namespace winnow
