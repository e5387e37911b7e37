// KVzip's replay (arXiv 2505.23416): the model is made to repeat its context, chunk by chunk, and slots are scored by
// how much the repeating attends to them. Needs the whole context in the cache; leaves the cache as it is. All ranks
// call it for the same sequences in the same order; what it finds is the same for any rank count and any step size.
// Engine thread only; collective.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "engine/evictor.h"
#include "engine/projected_norms.h"
#include "engine/request.h"
#include "kv/page_pool.h"
#include "kv/sequence_cache.h"
#include "model/transformer.h"

namespace winnow {

// Tokens of the chunk before that a chunk's instruction ends with ("... starting with").
constexpr int64_t kReplayedBefore = 8;

// What is repeated.
struct ReplayedContext {
  const SequenceCache* cache;
  std::span<const int32_t> tokens;  // the text in the cache
  const ReplayPrompt* prompt;
  int64_t sink_tokens;             // attended to beside every chunk
  const ProjectedNorms* norms;     // null for ObservedReplay::kAttention
  KvReplicas* replicas = nullptr;  // null if no KV head has any
};

struct ReplayResult {
  // kNumerical if a hidden state of the replay was not finite: scores are then none. The same on all ranks.
  Status status;
  SlotScores scores;
  int64_t rows = 0;  // token rows that went through the model
};

// Every chunk is one pass over instruction + chunk, whose queries attend to [sinks | the chunk's cached slots | the
// pass's own tokens so far]. A slot's score is the most softmax weight that any query of any query head of its group
// gives it while its own chunk is repeated; with norms, of every query head times the length of what the output
// projection makes of the slot's value, divided by the length of the query's attention input (KVzip+, arXiv
// 2601.07891). A failure is of memory: SlotsWithReplay less the cache's must be free, beside work space.
Result<ReplayResult> ReplayContext(Transformer& transformer, PagePool& pool, const ReplayedContext& context);

// Whether a request's policy looks at a replay.
bool Replays(const EvictionSettings& eviction);

// Slots per layer and KV head that the request's context and its replay take together, each in whole pages.
int64_t SlotsWithReplay(const Request& request);

}  // namespace winnow
