// Texts of an evaluation as tokens, and the user's haystack. Rank 0; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "eval/haystack.h"
#include "launch/eval_task_run.h"
#include "model/tokenizer.h"

namespace winnow {

// The parts one after the other, each encoded by itself, so that no token reaches from what is compressed into what
// follows. The first num_compressed parts are what policies compress. The begin-of-text token goes in front if the
// model has one by default.
Result<EvalPrompt> EncodeParts(const Tokenizer& tokenizer, const std::vector<std::string>& parts,
                               size_t num_compressed);

// The text of a file, or generated prose without one.
Result<Haystack> ReadHaystack(const std::optional<std::string>& path);

}  // namespace winnow
