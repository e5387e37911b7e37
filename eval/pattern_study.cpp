#include "eval/pattern_study.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"

namespace winnow {
namespace {

using Kinds = std::vector<std::vector<SlotKind>>;  // [layer * local KV heads + local head][token]

void Count(SlotKind kind, KindCounts* counts) {
  if (kind != SlotKind::kNone) ++(*counts)[size_t(kind)];
}

// What an eviction has left of this rank's heads.
void CountHeld(const Kinds& kinds, const SequenceCache& cache, PatternCase* counts) {
  ++counts->evictions;
  for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
    for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
      const std::vector<SlotKind>& own = kinds.at(size_t(layer * cache.num_kv_heads() + head));
      for (int64_t token = 0; token < cache.tokens_seen(); ++token) {
        Count(own[size_t(token)], &counts->present[size_t(layer)]);
      }
      for (int32_t position : cache.head(layer, head).positions) {
        Count(own[size_t(position)], &counts->held[size_t(layer)]);
      }
    }
  }
}

// All counts of all ranks, in one collective. Evictions are the same on all of them. is_counted: false where other
// ranks count the same heads.
void SumOverRanks(Communicator& communicator, bool is_counted, PatternScore* score) {
  std::vector<int64_t> all;
  const auto for_each = [&](auto&& f) {
    for (KindCounts& counts : score->heads) f(counts);
    for (PatternCase& one : score->cases) {
      for (KindCounts& counts : one.present) f(counts);
      for (KindCounts& counts : one.held) f(counts);
    }
  };
  for_each([&](KindCounts& counts) { all.insert(all.end(), counts.begin(), counts.end()); });
  if (!is_counted) std::fill(all.begin(), all.end(), 0);
  communicator.AllReduce(std::span<int64_t>(all), ReduceOp::kSum);
  auto at = all.begin();
  for_each([&](KindCounts& counts) {
    std::copy(at, at + int64_t(counts.size()), counts.begin());
    at += int64_t(counts.size());
  });
}

}  // namespace

void PatternCase::Add(const PatternCase& other) {
  present.resize(other.present.size());
  held.resize(other.held.size());
  for (size_t layer = 0; layer < present.size(); ++layer) {
    for (size_t kind = 0; kind < kNumSlotKinds; ++kind) {
      present[layer][kind] += other.present[layer][kind];
      held[layer][kind] += other.held[layer][kind];
    }
  }
  evictions += other.evictions;
}

int64_t PatternStudyTokens(const EvalText& text, const std::vector<EvictionSettings>& cases) {
  return int64_t(text.tokens.size()) - 1 + LossStudyTokens(text, cases);
}

Result<PatternScore> RunPatternStudy(RankEngine& engine, Communicator& communicator, const EvalText& text,
                                     const std::vector<EvictionSettings>& cases, int64_t interval, uint64_t seed,
                                     const std::function<void(int64_t tokens_done)>& progress) {
  const auto tokens = std::span(text.tokens).first(text.tokens.size() - 1);
  WINNOW_ASSIGN_OR_RETURN(const BlockAttention attention,
                          RecordBlockAttention(engine.transformer(), engine.pool(), engine.runner().replicas(), tokens,
                                               {.begin = interval, .interval = interval}, progress));
  const Kinds kinds = SlotKindsOf(attention);
  const ModelConfig& config = engine.transformer().config();
  const Range own = engine.transformer().kv_heads();
  PatternScore score;
  score.heads.resize(size_t(config.num_layers * config.num_kv_heads));
  for (size_t i = 0; i < kinds.size(); ++i) {
    const int64_t layer = int64_t(i) / own.size(), head = own.begin + int64_t(i) % own.size();
    for (SlotKind kind : kinds[i]) Count(kind, &score.heads[size_t(layer * config.num_kv_heads + head)]);
  }
  score.cases.resize(cases.size());
  for (PatternCase& one : score.cases) {
    one.present.resize(size_t(config.num_layers));
    one.held.resize(size_t(config.num_layers));
  }
  // The study numbers its requests: the full cache is 0, then come the cases.
  engine.runner().set_cache_observer([&](const StepItem& item, const SequenceCache& cache) {
    if (item.evict) CountHeld(kinds, cache, &score.cases.at(size_t(item.request_id - 1)));
  });
  const auto studied = RunLossStudy(engine.runner(), text, cases, seed, [&](int64_t done) {
    if (progress) progress(int64_t(tokens.size()) + done);
  });
  engine.runner().set_cache_observer(nullptr);
  WINNOW_RETURN_IF_ERROR(studied.status());
  SumOverRanks(communicator, engine.runner().replicas().is_first(), &score);
  return score;
}

}  // namespace winnow
