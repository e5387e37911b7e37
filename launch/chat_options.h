// The flags of `winnow chat`, the same on every rank. Parsing touches nothing but the arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "engine/request.h"
#include "launch/engine_flags.h"
#include "launch/sampling_defaults.h"

namespace CLI {
class App;
}

namespace winnow {

// Of prompt and answer unless --max-model-len says otherwise: pages for a whole conversation are taken at the start.
inline constexpr int64_t kDefaultChatContext = 8192;

struct ChatOptions : EngineFlags {
  std::optional<std::string> system;         // text of a system message
  std::optional<std::string> template_path;  // none: the model file's
  int64_t max_tokens = 512;                  // of one answer
  SamplingParams sampling;                   // but for the seed; the model's files may say more:
  SamplingGiven sampling_given;              // which of the numbers stand on the command line
  std::optional<uint64_t> seed;              // none: drawn, and said
  EvictionSettings eviction;                 // as asked; resolved for each turn
  std::optional<int64_t> max_model_len;
  int64_t max_num_batched_tokens = 512;
};

// Declares the flags on a sub-command; `options` must live until parsing is over.
void AddChatFlags(CLI::App& command, ChatOptions* options);

// What the flags' own types cannot say. InvalidArgument naming the flag, what was expected and what was found.
Status CheckChatOptions(const ChatOptions& options, int num_ranks);

}  // namespace winnow
