// Prompts of `winnow generate` as engine requests. Rank 0 only: no other rank reads a prompt or needs a tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/request.h"
#include "launch/generate_options.h"
#include "model/model_config.h"
#include "model/tokenizer.h"

namespace winnow {

struct PreparedRequests {
  std::vector<Request> requests;   // ids 0, 1, ...
  std::vector<std::string> notes;  // one line each, for standard error
  int64_t context = 0;             // tokens of prompt and answer at most
};

// InvalidArgument for empty, unreadable or non-UTF-8 prompts, prompts longer than the context, and bad numbers; the
// message names the file and line.
Result<PreparedRequests> PrepareRequests(const GenerateOptions& options, const ModelConfig& config,
                                         const Tokenizer& tokenizer);

}  // namespace winnow
