#include "engine/future_attention.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "kv/kv_batch.h"

namespace winnow {
namespace {

// Rows of a step: as many as a step of a study has at most.
constexpr int64_t kMaxRowsPerStep = 256;

Status CheckFinite(std::span<const int32_t> not_finite, int64_t first_token) {
  const auto bad = std::find(not_finite.begin(), not_finite.end(), 1);
  if (bad == not_finite.end()) return OkStatus();
  return NumericalError("full: the hidden state at position " + std::to_string(first_token + bad - not_finite.begin()) +
                        " is not finite: a sum left the fixed-point range or met a NaN");
}

}  // namespace

Result<BlockAttention> RecordBlockAttention(Transformer& transformer, PagePool& pool, KvReplicas& replicas,
                                            std::span<const int32_t> tokens, const QueryBlocks& blocks,
                                            const std::function<void(int64_t tokens_done)>& progress) {
  WINNOW_CHECK(blocks.begin > 0 && blocks.interval > 0);
  const ModelConfig& config = transformer.config();
  const double steps_of_one =
      double(kMassSteps) * double(blocks.interval) * double(config.num_query_heads / config.num_kv_heads);
  SequenceCache cache(pool, config.num_layers, transformer.kv_heads().size(), transformer.kv_heads().begin);
  KvBatch kv_batch(pool.backend());
  BlockAttention attention{.blocks = blocks, .tokens = {tokens.begin(), tokens.end()}, .mean = {}};
  const int64_t num_tokens = int64_t(tokens.size());
  int64_t block_end = std::min(blocks.begin, num_tokens);  // at first: where the first block begins
  for (int64_t done = 0; done < num_tokens;) {
    const int64_t count = std::min(kMaxRowsPerStep, block_end - done);
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < count; ++i) positions.push_back(done + i);
    // Queries before the first block count in none.
    const std::vector<int32_t> observe(size_t(done >= blocks.begin ? count : 0), 1);
    WINNOW_RETURN_IF_ERROR(cache.Reserve(count));
    cache.Append(count);
    const KvBatchItem item{&cache, count};
    WINNOW_RETURN_IF_ERROR(kv_batch.Build({&item, 1}));
    ForwardResult forward;
    WINNOW_RETURN_IF_ERROR(transformer.Forward({.token_ids = tokens.subspan(size_t(done), size_t(count)),
                                                .positions = positions,
                                                .logit_rows = {},
                                                .kv = &kv_batch,
                                                .pages = pool.pages(),
                                                .observe = observe,
                                                .mass = pool.mass()},
                                               &forward));
    WINNOW_RETURN_IF_ERROR(CheckFinite(forward.not_finite, done));
    done += count;
    if (progress) progress(done);
    if (done < block_end) continue;
    if (done > blocks.begin) {
      auto& means = attention.mean.emplace_back();
      GroupStatistics groups{.mass = cache.ReadMass(), .queries = {}, .query_sums = {}};
      replicas.Complete({&groups, 1}, config.head_dim);
      for (const std::vector<int64_t>& mass : groups.mass) {
        std::vector<float>& head = means.emplace_back();
        for (int64_t steps : mass) head.push_back(float(double(steps) / steps_of_one));
      }
      cache.ClearMass();
    }
    block_end = std::min(block_end + blocks.interval, num_tokens);
  }
  return attention;
}

FutureAttention::FutureAttention(BlockAttention attention)
    : blocks_(attention.blocks), tokens_(std::move(attention.tokens)), most_(std::move(attention.mean)) {
  for (size_t block = most_.size(); block-- > 1;) {
    for (size_t head = 0; head < most_[block].size(); ++head) {
      const std::vector<float>& later = most_[block][head];
      std::vector<float>& own = most_[block - 1][head];
      for (size_t slot = 0; slot < own.size(); ++slot) own[slot] = std::max(own[slot], later[slot]);
    }
  }
}

std::vector<float> FutureAttention::MostAfter(int64_t tokens_seen, size_t head,
                                              std::span<const int32_t> positions) const {
  const int64_t after_begin = tokens_seen - blocks_.begin;
  WINNOW_CHECK(after_begin >= 0 && tokens_seen <= int64_t(tokens_.size()));
  WINNOW_CHECK(after_begin % blocks_.interval == 0 || tokens_seen == int64_t(tokens_.size()));
  const size_t block = size_t((after_begin + blocks_.interval - 1) / blocks_.interval);
  std::vector<float> most(positions.size(), 0.0f);
  if (block >= most_.size()) return most;
  const std::vector<float>& of_head = most_[block].at(head);
  for (size_t i = 0; i < positions.size(); ++i) most[i] = of_head.at(size_t(positions[i]));
  return most;
}

std::vector<std::vector<float>> FutureAttention::MostAfter(const SequenceCache& cache) const {
  std::vector<std::vector<float>> most;
  for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
    for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
      most.push_back(MostAfter(cache.tokens_seen(), most.size(), cache.head(layer, head).positions));
    }
  }
  return most;
}

}  // namespace winnow
