// The words by which a model is told to repeat its context (KVzip), in its own tokens. Rank 0, or any thread.
#pragma once

#include "base/status.h"
#include "engine/request.h"
#include "model/tokenizer.h"

namespace winnow {

// The authors' words, without the turn marks of a chat: winnow continues texts as they are given. BadFile or
// InvalidArgument if the tokenizer cannot write them.
Result<ReplayPrompt> MakeReplayPrompt(const Tokenizer& tokenizer);

}  // namespace winnow
