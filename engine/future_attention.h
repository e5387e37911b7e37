// What the rest of a known text will attend to, read off a full cache: the golden oracle of ForesightKV (arXiv
// 2602.03203). The text's queries are cut into blocks where the evictions of one (budget, interval) fall, so a
// recording serves that pair alone. One rank's part, of its own KV heads; the sums are integers, so the numbers do not
// depend on chunks, threads or ranks. Engine thread.
//
// Memory of a recording of T tokens, in bytes: 4 * layers * local KV heads * (sum over the blocks of their last token),
// about 2 * layers * local KV heads * (T^2 - begin^2) / interval. SmolLM2-135M (30 layers, 3 KV heads), 2,000 tokens,
// blocks of 64 from 320 on: 11 MB on one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/kv_replicas.h"
#include "engine/request.h"
#include "kv/page_pool.h"
#include "kv/sequence_cache.h"
#include "model/transformer.h"

namespace winnow {

// Block j holds the queries of the tokens begin + j * interval and on, `interval` of them, the last block maybe fewer.
struct QueryBlocks {
  int64_t begin = 0, interval = 0;

  bool operator==(const QueryBlocks&) const = default;
};

// The blocks between the evictions of a `chunked` policy: the first begins at budget + interval.
inline QueryBlocks BlocksBetweenEvictions(const EvictionSettings& settings) {
  return {.begin = settings.Trigger(), .interval = settings.interval};
}

// How much attention each block pays to each slot of the full cache.
struct BlockAttention {
  QueryBlocks blocks;
  std::vector<int32_t> tokens;  // the text
  // [block][layer * local KV heads + local head][slots up to the block's last token]: softmax weight, mean over the
  // `interval` queries of a full block, whatever the last block has, and over the query heads of the KV head.
  std::vector<std::vector<std::vector<float>>> mean;
};

// Reads a text with a full cache. The pool must have mass and, beside what others hold, a slot a token on every head:
// OutOfMemory if not. A row that is not finite is a kNumerical error with its position. Collective; where KV heads have
// replicas also among these, once a block.
// progress, if given: called after every step with the tokens that have been read.
Result<BlockAttention> RecordBlockAttention(Transformer& transformer, PagePool& pool, KvReplicas& replicas,
                                            std::span<const int32_t> tokens, const QueryBlocks& blocks,
                                            const std::function<void(int64_t tokens_done)>& progress);

class FutureAttention {
 public:
  explicit FutureAttention(BlockAttention attention);

  const QueryBlocks& blocks() const { return blocks_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }

  // [positions] the most that any block after the first `tokens_seen` tokens, where a block begins or the text ends,
  // pays to the tokens at `positions`; 0 if none comes after. head: layer * local KV heads + local head.
  std::vector<float> MostAfter(int64_t tokens_seen, size_t head, std::span<const int32_t> positions) const;
  // The same for every slot of this rank's part of a cache of the text: [layer * local KV heads + local head][length].
  std::vector<std::vector<float>> MostAfter(const SequenceCache& cache) const;

 private:
  QueryBlocks blocks_;
  std::vector<int32_t> tokens_;
  std::vector<std::vector<std::vector<float>>> most_;  // as BlockAttention::mean, of the block and those after it
};

}  // namespace winnow
