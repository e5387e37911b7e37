#include "engine/context_replay.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/resume_point.h"
#include "kv/kv_batch.h"

namespace winnow {
namespace {

// Changes no bit. As many as a step of the default size, so that the work space need not grow.
constexpr int64_t kRowsPerStep = 512;

int64_t InWholePages(int64_t slots) {
  return (slots + kPageSlots - 1) / kPageSlots * kPageSlots;
}

// Where the index-th text token stands, or would stand behind the last one: pinned slots own positions too.
int64_t PositionOfToken(std::span<const int32_t> pinned, int64_t index) {
  int64_t position = index;
  for (int32_t taken : pinned) position += taken <= position;
  return position;
}

class Replay {
 public:
  Replay(Transformer& transformer, PagePool& pool, const ReplayedContext& context)
      : transformer_(transformer),
        pool_(pool),
        context_(context),
        kv_batch_(pool.backend()),
        group_(transformer.query_heads().size() / transformer.kv_heads().size()) {
    const SequenceCache& cache = *context_.cache;
    WINNOW_CHECK(int64_t(context_.tokens.size()) == cache.tokens_seen() && context_.prompt->chunk_tokens > 0);
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
      for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
        result_.scores.emplace_back(size_t(cache.head(layer, head).length()), 0.0f);
      }
    }
  }

  Result<ReplayResult> Run() {
    const int64_t num_tokens = int64_t(context_.tokens.size());
    for (int64_t begin = 0; begin < num_tokens && result_.status.ok(); begin += context_.prompt->chunk_tokens) {
      WINNOW_RETURN_IF_ERROR(RunChunk(begin, std::min(num_tokens, begin + context_.prompt->chunk_tokens)));
    }
    if (context_.replicas != nullptr && result_.status.ok()) TakeMaxOfReplicas();
    return std::move(result_);
  }

 private:
  // Each has the peaks of its own query heads.
  void TakeMaxOfReplicas() {
    std::vector<float> all;
    for (const std::vector<float>& scores : result_.scores) all.insert(all.end(), scores.begin(), scores.end());
    context_.replicas->TakeMax(all);
    auto at = all.begin();
    for (std::vector<float>& scores : result_.scores) {
      std::copy(at, at + int64_t(scores.size()), scores.begin());
      at += int64_t(scores.size());
    }
  }

  std::vector<int32_t> Input(int64_t begin, int64_t end) const {
    std::vector<int32_t> input = begin == 0 ? context_.prompt->first : context_.prompt->next;
    // The chunk before has at least as many tokens as this one.
    const int64_t before = std::min(begin, std::min(kReplayedBefore, context_.prompt->chunk_tokens));
    input.insert(input.end(), context_.tokens.begin() + begin - before, context_.tokens.begin() + end);
    return input;
  }

  // Text tokens [begin, end).
  Status RunChunk(int64_t begin, int64_t end) {
    const SequenceCache& cache = *context_.cache;
    const PositionRange chunk = {PositionOfToken(cache.pinned_positions(), begin),
                                 PositionOfToken(cache.pinned_positions(), end)};
    const PositionRange sinks = {0, std::min(context_.sink_tokens, chunk.begin)};
    const std::vector<int32_t> input = Input(begin, end);
    const int64_t num_rows = int64_t(input.size());
    SequenceCache scratch(pool_, cache.num_layers(), cache.num_kv_heads(), cache.first_kv_head());
    WINNOW_RETURN_IF_ERROR(scratch.CopySlots(cache, std::vector<PositionRange>{sinks, chunk}));
    WINNOW_RETURN_IF_ERROR(scratch.Reserve(num_rows));
    const int64_t num_slots = InWholePages(scratch.max_length() + num_rows);
    const int64_t query_heads = cache.num_kv_heads() * group_;
    WINNOW_ASSIGN_OR_RETURN(const Buffer buffer,
                            pool_.backend().Allocate(4 * cache.num_layers() * query_heads * num_slots));
    const Tensor peaks = buffer.View(DType::kF32, {cache.num_layers(), 1, query_heads, num_slots});
    for (int64_t row = 0; row < num_rows && result_.status.ok(); row += kRowsPerStep) {
      const int64_t count = std::min(kRowsPerStep, num_rows - row);
      WINNOW_RETURN_IF_ERROR(RunStep(std::span(input).subspan(size_t(row), size_t(count)), peaks, &scratch));
    }
    if (!result_.status.ok()) return OkStatus();
    std::vector<float> host(size_t(peaks.num_elements()));
    pool_.backend().CopyToHost(std::as_writable_bytes(std::span(host)), peaks);
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
      for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
        const int64_t first = (layer * cache.num_kv_heads() + head) * group_ * num_slots;
        TakeScores(layer, head, sinks, chunk, std::span(host).subspan(size_t(first), size_t(group_ * num_slots)));
      }
    }
    return OkStatus();
  }

  Status RunStep(std::span<const int32_t> tokens, const Tensor& peaks, SequenceCache* scratch) {
    std::vector<int64_t> positions;
    for (size_t i = 0; i < tokens.size(); ++i) positions.push_back(scratch->next_position() + int64_t(i));
    scratch->Append(int64_t(tokens.size()));
    const KvBatchItem item{scratch, int64_t(tokens.size())};
    WINNOW_RETURN_IF_ERROR(kv_batch_.Build({&item, 1}));
    ForwardResult forward;
    WINNOW_RETURN_IF_ERROR(transformer_.Forward({.token_ids = tokens,
                                                 .positions = positions,
                                                 .logit_rows = {},
                                                 .kv = &kv_batch_,
                                                 .pages = pool_.pages(),
                                                 .mass = pool_.mass(),
                                                 .peaks = peaks,
                                                 .peaks_by_input = context_.norms != nullptr},
                                                &forward));
    result_.rows += int64_t(tokens.size());
    if (const auto bad = std::find(forward.not_finite.begin(), forward.not_finite.end(), 1);
        bad != forward.not_finite.end()) {
      result_.status = NumericalError("the hidden state at position " +
                                      std::to_string(positions[size_t(bad - forward.not_finite.begin())]) +
                                      ", where the context is replayed for its eviction, is not finite: a sum left the "
                                      "fixed-point range or met a NaN");
    }
    return OkStatus();
  }

  // peaks [group][slots of the pass].
  void TakeScores(int64_t layer, int64_t head, const PositionRange& sinks, const PositionRange& chunk,
                  std::span<const float> peaks) {
    const HeadCache& cache = context_.cache->head(layer, head);
    const auto slot_at = [&](int64_t position) {
      return std::lower_bound(cache.positions.begin(), cache.positions.end(), position) - cache.positions.begin();
    };
    const int64_t num_sinks = slot_at(sinks.end), begin = slot_at(chunk.begin), count = slot_at(chunk.end) - begin;
    std::vector<float> norms;  // [slots of the chunk], of one query head
    std::vector<float> values;
    if (context_.norms != nullptr) {
      std::vector<int32_t> slots;
      for (int64_t i = 0; i < count; ++i) slots.push_back(cache.PhysicalSlot(begin + i));
      values.resize(size_t(count * context_.cache->head_dim()));
      norms.resize(size_t(count));
      pool_.ReadSlots(slots, {}, values);
    }
    std::vector<float>& scores = result_.scores[size_t(layer * context_.cache->num_kv_heads() + head)];
    const int64_t stride = int64_t(peaks.size()) / group_;
    for (int64_t g = 0; g < group_; ++g) {
      if (context_.norms != nullptr) context_.norms->Of(layer, head * group_ + g, values, norms);
      for (int64_t i = 0; i < count; ++i) {
        const float peak = peaks[size_t(g * stride + num_sinks + i)];
        float& score = scores[size_t(begin + i)];
        score = std::max(score, context_.norms != nullptr ? peak * norms[size_t(i)] : peak);
      }
    }
  }

  Transformer& transformer_;
  PagePool& pool_;
  const ReplayedContext& context_;
  KvBatch kv_batch_;
  const int64_t group_;  // query heads of a KV head on this rank
  ReplayResult result_;
};

}  // namespace

Result<ReplayResult> ReplayContext(Transformer& transformer, PagePool& pool, const ReplayedContext& context) {
  return Replay(transformer, pool, context).Run();
}

bool Replays(const EvictionSettings& eviction) {
  return MakePolicy(eviction.policy).value()->observations().replay != ObservedReplay::kNone;
}

int64_t SlotsWithReplay(const Request& request) {
  const ReplayPrompt& prompt = request.eviction.replay_prompt;
  int64_t pinned = request.resume == nullptr ? 0 : int64_t(request.resume->cache.pinned_positions.size());
  for (const PinnedBlock& block : request.pinned) pinned += block.num_slots;
  const int64_t chunk = std::min(request.prompt_tokens(), prompt.chunk_tokens);
  const int64_t input = int64_t(std::max(prompt.first.size(), prompt.next.size())) + kReplayedBefore + chunk;
  return InWholePages(request.prompt_tokens() + pinned) +
         InWholePages(request.eviction.sink_tokens + chunk + pinned + input);
}

}  // namespace winnow
