// The request of `winnow generate --load-kv`: a saved sequence that goes on. Rank 0 only, as PrepareRequests.
#pragma once

#include "base/status.h"
#include "engine/sequence_file.h"
#include "launch/generate_options.h"
#include "launch/generate_requests.h"
#include "model/tokenizer.h"

namespace winnow {

// The model and the arithmetic of this run.
SequenceFileModel SequenceFileModelOf(const GenerateOptions& options, const ModelConfig& config, uint64_t fingerprint);

// Reads options.load_kv. Without --prompt or --prompt-file the answer goes on; with one its text is appended, without
// a begin-of-text token, and everything up to there is the prompt. Eviction and choice index are those of the file, and
// so is the seed if none is given. BadFile as LoadSequence; InvalidArgument for flags of the KV cache that say
// otherwise than the file, and for what PrepareRequests refuses.
Result<PreparedRequests> PrepareResumedRequest(const GenerateOptions& options, const SequenceFileModel& model,
                                               const Tokenizer& tokenizer);

}  // namespace winnow
