// The flags of `winnow generate`, the same on every rank. Parsing touches nothing but the arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/request.h"
#include "launch/engine_flags.h"
#include "launch/sampling_defaults.h"

namespace CLI {
class App;
}

namespace winnow {

// Rows of a step. The scratch of an op grows with them, and an op has no way to say that memory ran out.
inline constexpr int64_t kMaxBatchedTokens = 65536;

struct GenerateOptions : EngineFlags {
  std::optional<std::string> prompt, prompt_file, prompts_file;  // one, or with load_kv at most one of the first two
  int64_t max_tokens = 128;
  SamplingParams sampling;       // but for the seed; the model's files may say more:
  SamplingGiven sampling_given;  // which of the numbers stand on the command line
  std::optional<uint64_t> seed;  // none: drawn, and reported
  EvictionSettings eviction;     // as asked; ResolveEviction comes later
  // The flags of eviction that were given, as they are written: "--kv-interval". One that does nothing is worth a note.
  std::vector<std::string> eviction_flags;
  bool kv_eviction_given = false, kv_cache_dtype_given = false;
  std::optional<std::string> save_kv, load_kv;  // files of engine/sequence_file.h
  std::optional<int64_t> max_model_len;
  std::optional<int64_t> kv_cache_memory_bytes;  // pages of each rank; none: what the requests need
  int64_t max_num_seqs = 8;
  int64_t max_num_batched_tokens = 512;
  bool ignore_eos = false;
  bool json = false;
};

// Declares the flags on a sub-command; `options` must live until parsing is over.
void AddGenerateFlags(CLI::App& command, GenerateOptions* options);

// What the flags' own types cannot say. InvalidArgument naming the flag, what was expected and what was found.
Status CheckGenerateOptions(const GenerateOptions& options, int num_ranks);

}  // namespace winnow
