// The flags that every sub-command with a model has: which model, on what, with which arithmetic. Parsing touches
// nothing but the arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/rank_engine.h"

namespace CLI {
class App;
}

namespace winnow {

struct EngineFlags {
  std::string model_path;
  std::string load_format = "auto";
  std::string numerics = "exact";
  std::string kv_cache_dtype = "bf16";
  std::string backend = "cpu";
  std::string cpu_kernels = "auto";
  std::optional<int> threads;
  std::optional<int> tensor_parallel_size;
  bool check_ranks = false;
  std::vector<std::string> command_line;  // no flag: the whole line as it was typed, for results

  DType kv_dtype() const { return kv_cache_dtype == "bf16" ? DType::kBF16 : DType::kF32; }
  Numerics numerics_mode() const { return numerics == "exact" ? Numerics::kExact : Numerics::kFast; }
};

// Declares the flags on a sub-command, --model also without its name; `flags` must live until parsing is over.
void AddEngineFlags(CLI::App& command, EngineFlags* flags);

// What the flags' own types cannot say. InvalidArgument naming the flag, what was expected and what was found.
Status CheckEngineFlags(const EngineFlags& flags, int num_ranks);

// Whole numbers on the sub-command and its option groups are refused where CLI11 would clamp or wrap them or read them
// as octal. Called when all flags are declared.
void RefuseOddIntegers(CLI::App& command);

EngineOptions ToEngineOptions(const EngineFlags& flags, int threads, int64_t pool_slots, bool observe_attention);

// Threads per rank: as asked, or this rank's share of the cores it may run on. `warning` is not empty if more threads
// than cores were asked for.
int ResolveThreads(const std::optional<int>& asked, std::string* warning);

}  // namespace winnow
