#include "engine/model_runner.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "engine/evictor.h"
#include "engine/rank_check.h"
#include "engine/resume_point.h"

namespace winnow {
namespace {

void AddSince(const CollectiveCounters& before, const CollectiveCounters& now, CollectiveCounters* sum) {
  sum->calls += now.calls - before.calls;
  sum->payload_bytes += now.payload_bytes - before.payload_bytes;
}

// Adds one kept set to a running hash. Linear in the shard hashes, so that the sums over ranks agree for any split; the
// odd factor tells evictions apart.
void AddKeptSet(const SequenceCache& cache, uint64_t* hash) {
  *hash += cache.KeptHash() * (Mix64(uint64_t(cache.evictions())) | 1);
}

// The first token of the observation window before the next eviction. So that chunks and replays observe alike, nothing
// else matters.
int64_t WindowBegin(const Sequence& sequence) {
  const int64_t next = sequence.schedule.NextEviction();
  if (next == EvictionSchedule::kNever) return next;
  return next - sequence.policy->observations().Window(sequence.request.eviction.recent_tokens);
}

// The first token of the text, from the next one on, whose attention counts for its sequence's policy: all of them do,
// or those of the window.
int64_t FirstObserved(const Sequence& sequence) {
  switch (sequence.policy->observations().mass) {
    case ObservedMass::kNone:
      break;
    case ObservedMass::kCumulative:
      return 0;
    case ObservedMass::kWindow:
      return WindowBegin(sequence);
  }
  return EvictionSchedule::kNever;
}

// The first token of the text, from the next one on, whose queries the sequence's policy looks at.
int64_t FirstQuery(const Sequence& sequence) {
  const Observations observations = sequence.policy->observations();
  if (observations.queries) return WindowBegin(sequence);
  const bool is_summed = observations.query_moments && sequence.schedule.NextEviction() != EvictionSchedule::kNever;
  return is_summed ? observations.moments_begin : EvictionSchedule::kNever;
}

// The newest tokens whose queries belong to the window before the eviction after this one.
int64_t QueriesKept(const Sequence& sequence) {
  const int64_t next = sequence.schedule.NextEviction();
  if (!sequence.policy->observations().window_spans_evictions || next == EvictionSchedule::kNever) return 0;
  return std::max<int64_t>(0, sequence.cache.tokens_seen() - WindowBegin(sequence));
}

// The heads [first, first + count) of every layer's part of a pinned block.
std::vector<float> HeadsOf(std::span<const float> all, int64_t layers, Range heads, int64_t num_kv_heads) {
  const size_t per_head = all.size() / size_t(layers * num_kv_heads);
  std::vector<float> own;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto part =
        all.subspan(size_t(layer * num_kv_heads + heads.begin) * per_head, size_t(heads.size()) * per_head);
    own.insert(own.end(), part.begin(), part.end());
  }
  return own;
}

// Ends an item's request with a failure that came after its rows: instead of its token, or as its first score.
void EndWithError(const StepPlan& plan, const StepItem& item, const Status& status, StepResult* result) {
  if (item.score) {
    size_t first = 0;
    for (const StepItem& other : plan.items) {
      if (other.request_id == item.request_id) break;
      first += other.score ? size_t(other.num_tokens) : 0;
    }
    result->scores[first].status = status;
    return;
  }
  const auto token = std::find_if(result->tokens.begin(), result->tokens.end(),
                                  [&](const StepResult::Token& t) { return t.request_id == item.request_id; });
  if (token == result->tokens.end()) {
    result->tokens.push_back({item.request_id, {.status = status}});
  } else if (token->sampled.status.ok()) {
    token->sampled = {.status = status};
  }
}

// What a request's policy is told of the future is that of its own text, cut where its own evictions fall.
void CheckRecorded(const Request& request, const std::map<int64_t, FutureAttention>& recordings) {
  const auto it = recordings.find(request.recording);
  WINNOW_CHECK(it != recordings.end() && it->second.blocks() == BlocksBetweenEvictions(request.eviction));
  const std::vector<int32_t>& recorded = it->second.tokens();
  WINNOW_CHECK(request.pinned.empty() && request.resume == nullptr);
  WINNOW_CHECK(std::mismatch(recorded.begin(), recorded.end(), request.prompt.begin(), request.prompt.end()).first ==
               recorded.end());
}

SlotScores FutureOf(const Sequence& sequence, const std::map<int64_t, FutureAttention>& recordings) {
  if (!sequence.policy->observations().future) return {};
  return recordings.at(sequence.request.recording).MostAfter(sequence.cache);
}

// Slots that every head of the sequence holds, on whatever rank, but for the one more that its larger budget allows.
int64_t CommonLength(const Sequence& sequence) {
  const SequenceCache& cache = sequence.cache;
  int64_t longest = 0;
  for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
    for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
      const EvictionSettings& eviction = sequence.request.eviction;
      const int64_t budget = eviction.head_budgets().BudgetOf(layer, cache.first_kv_head() + head);
      const int64_t more = cache.evictions() > 0 ? budget - eviction.budget : 0;
      longest = std::max(longest, cache.head(layer, head).length() - more);
    }
  }
  return longest;
}

}  // namespace

ModelRunner::ModelRunner(Transformer& transformer, PagePool& pool, Communicator& communicator, bool check_ranks)
    : transformer_(transformer),
      pool_(pool),
      communicator_(communicator),
      replicas_(communicator, transformer.plan()),
      check_ranks_(check_ranks),
      kv_batch_(pool.backend()) {}

Sequence& ModelRunner::Find(int64_t request_id) {
  const auto it = sequences_.find(request_id);
  WINNOW_CHECK(it != sequences_.end());
  return it->second;
}

Status ModelRunner::Record(int64_t recording, std::span<const int32_t> tokens, const QueryBlocks& blocks,
                           const std::function<void(int64_t tokens_done)>& progress) {
  WINNOW_ASSIGN_OR_RETURN(BlockAttention attention,
                          RecordBlockAttention(transformer_, pool_, replicas_, tokens, blocks, progress));
  recordings_.insert_or_assign(recording, FutureAttention(std::move(attention)));
  return OkStatus();
}

Result<StepResult> ModelRunner::Execute(const StepPlan& plan) {
  StepResult result;
  for (int64_t id : plan.finished) result.finished.push_back(Finish(id));
  for (const Request& request : plan.admitted) WINNOW_RETURN_IF_ERROR(Admit(request));
  if (!plan.items.empty()) {
    WINNOW_RETURN_IF_ERROR(RunItems(plan, &result));
    WINNOW_RETURN_IF_ERROR(AppendPinned(plan));
    WINNOW_RETURN_IF_ERROR(EvictDue(plan, &result));
    if (check_ranks_) WINNOW_RETURN_IF_ERROR(CheckRanks(plan, result));
    for (const StepItem& item : plan.items) {
      if (cache_observer_) cache_observer_(item, Find(item.request_id).cache);
    }
  }
  return result;
}

Status ModelRunner::Admit(const Request& request) {
  auto policy = MakePolicy(request.eviction.policy);
  WINNOW_CHECK(policy.ok());  // resolved by the front
  if ((*policy)->observations().future) CheckRecorded(request, recordings_);
  const Range heads = transformer_.kv_heads();
  Sequence sequence{.request = request,
                    .policy = std::move(policy).value(),
                    .cache = SequenceCache(pool_, transformer_.config().num_layers, heads.size(), heads.begin),
                    .schedule = EvictionSchedule(request),
                    .tokens = request.prompt};
  if (sequence.policy->positions() == kCompactedPositions) {
    sequence.cache.CompactPositions(transformer_.rotary_frequencies());
  }
  if (request.resume != nullptr) {
    const SequenceSnapshot& whole = request.resume->cache;
    WINNOW_RETURN_IF_ERROR(sequence.cache.Restore(replicas_.exist() ? replicas_.PartOf(whole) : whole));
    sequence.CountPeaks();
    // What was counted over all ranks goes on as rank 0's share.
    if (communicator_.rank() == 0) {
      sequence.kept_hash = request.resume->kept_hash;
      sequence.pages_evicted = request.resume->pages_freed;
    }
    sequence.request.resume = nullptr;
  }
  const bool is_new = sequences_.emplace(request.id, std::move(sequence)).second;
  WINNOW_CHECK(is_new);
  return OkStatus();
}

SequenceReport ModelRunner::Finish(int64_t request_id) {
  Sequence& sequence = Find(request_id);
  SequenceReport report;
  if (sequence.request.save_cache) {
    // Before the last kept set is counted: for who goes on it is none.
    const bool with_mass = sequence.policy->observations().mass != ObservedMass::kNone;
    ResumePoint mine{.cache = sequence.cache.TakeSnapshot(with_mass),
                     .kept_hash = sequence.kept_hash,
                     .pages_freed = sequence.pages_evicted};
    replicas_.Complete(&mine.cache);
    report.saved = GatherResumePoint(communicator_, mine, replicas_.is_first());
  }
  AddKeptSet(sequence.cache, &sequence.kept_hash);
  struct Share {
    uint64_t kept_hash;
    int64_t kept_entries, pinned_entries, evicted_entries, pages_freed, peak_bytes, end_entries, peak_entries;
  };
  const SequenceCache& cache = sequence.cache;
  const Share mine{sequence.kept_hash,     cache.entries() - cache.pinned_entries(),
                   cache.pinned_entries(), cache.entries_evicted(),
                   sequence.pages_evicted, sequence.peak_pages * pool_.layout().page_bytes(),
                   cache.entries(),        sequence.peak_entries};
  const auto bytes = communicator_.AllGather(std::as_bytes(std::span(&mine, 1)));
  std::vector<Share> shares(size_t(communicator_.size()));
  std::memcpy(shares.data(), bytes.data(), bytes.size());

  report.request_id = request_id;
  report.tokens_seen = sequence.cache.tokens_seen();
  report.evictions = sequence.cache.evictions();
  report.full_entries = report.tokens_seen * transformer_.config().num_layers * transformer_.config().num_kv_heads;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    const Share& share = shares[rank];
    report.peak_bytes_per_rank.push_back(share.peak_bytes);
    report.load.end_entries.push_back(share.end_entries);
    report.load.peak_entries.push_back(share.peak_entries);
    if (!transformer_.plan().is_first_replica(int(rank))) continue;  // each head is counted once
    report.kept_hash += share.kept_hash;
    report.kept_entries += share.kept_entries;
    report.pinned_entries += share.pinned_entries;
    report.evicted_entries += share.evicted_entries;
    report.pages_freed += share.pages_freed;
  }
  sequences_.erase(request_id);
  return report;
}

Status ModelRunner::RunItems(const StepPlan& plan, StepResult* result) {
  std::vector<int32_t> token_ids, logit_rows, query_rows;
  std::vector<int64_t> num_query_rows;  // of each item
  std::vector<int64_t> positions;
  std::vector<int32_t> observe;
  std::vector<KvBatchItem> kv_items;
  bool is_observed = false;
  for (const StepItem& item : plan.items) {
    Sequence& sequence = Find(item.request_id);
    const int64_t begin = sequence.cache.tokens_seen(), first_position = sequence.cache.next_rotary_position();
    const int64_t first_observed = FirstObserved(sequence);
    const int64_t first_query = FirstQuery(sequence);
    num_query_rows.push_back(0);
    WINNOW_CHECK(item.num_tokens > 0 && begin + item.num_tokens <= int64_t(sequence.tokens.size()));
    // Admission has reserved these pages, so a failure is a mistake of the plan; the message says which numbers.
    WINNOW_RETURN_IF_ERROR(sequence.cache.Reserve(item.num_tokens));
    sequence.cache.Append(item.num_tokens);
    sequence.CountPeaks();
    for (int64_t i = 0; i < item.num_tokens; ++i) {
      token_ids.push_back(sequence.tokens[size_t(begin + i)]);
      positions.push_back(first_position + i);
      if (begin + i >= first_query) {
        query_rows.push_back(int32_t(token_ids.size()) - 1);
        ++num_query_rows.back();
      }
      observe.push_back(begin + i >= first_observed);
      is_observed |= observe.back() != 0;
    }
    WINNOW_CHECK(!item.score || (!item.sample && begin + item.num_tokens < int64_t(sequence.tokens.size())));
    const int64_t num_wanted = item.score ? item.num_tokens : int64_t(item.sample);
    for (int64_t i = num_wanted; i > 0; --i) logit_rows.push_back(int32_t(int64_t(token_ids.size()) - i));
    kv_items.push_back({&sequence.cache, item.num_tokens});
  }
  WINNOW_RETURN_IF_ERROR(kv_batch_.Build(kv_items));

  CollectiveCounters before = communicator_.counters();
  ForwardResult forward;
  WINNOW_RETURN_IF_ERROR(
      transformer_.Forward({.token_ids = token_ids,
                            .positions = positions,
                            .logit_rows = logit_rows,
                            .kv = &kv_batch_,
                            .pages = pool_.pages(),
                            .observe = is_observed ? std::span<const int32_t>(observe) : std::span<const int32_t>(),
                            .mass = pool_.mass(),
                            .query_rows = query_rows},
                           &forward));
  AddSince(before, communicator_.counters(), &counters_.forward);
  KeepQueries(plan, num_query_rows, forward);
  if (logits_observer_) logits_observer_(plan, forward.logits);
  ++counters_.steps;
  counters_.rows += int64_t(token_ids.size());
  counters_.sampled_rows += int64_t(logit_rows.size());

  before = communicator_.counters();
  SampleRows(plan, forward, result);
  ScoreItems(plan, forward, result);
  AddSince(before, communicator_.counters(), &counters_.sampling);
  return OkStatus();
}

void ModelRunner::KeepQueries(const StepPlan& plan, std::span<const int64_t> num_rows, const ForwardResult& forward) {
  const size_t num_layers = size_t(transformer_.config().num_layers);
  const size_t layer_floats = forward.queries.size() / num_layers;
  const int64_t all_rows = std::accumulate(num_rows.begin(), num_rows.end(), int64_t(0));
  size_t first = 0;
  for (size_t i = 0; i < plan.items.size(); ++i) {
    if (num_rows[i] == 0) continue;
    const size_t floats = layer_floats / size_t(all_rows) * size_t(num_rows[i]);
    std::vector<float> own;
    for (size_t layer = 0; layer < num_layers; ++layer) {
      const auto part = std::span(forward.queries).subspan(layer * layer_floats + first, floats);
      own.insert(own.end(), part.begin(), part.end());
    }
    first += floats;
    Sequence& sequence = Find(plan.items[i].request_id);
    if (sequence.policy->observations().queries) {
      sequence.cache.AppendQueries(num_rows[i], own);
    } else {
      std::vector<int64_t> positions(static_cast<size_t>(num_rows[i]));
      std::iota(positions.begin(), positions.end(), sequence.cache.next_position() - num_rows[i]);
      sequence.cache.AddQueries(positions, transformer_.rotary_frequencies(), own);
    }
  }
}

void ModelRunner::SampleRows(const StepPlan& plan, const ForwardResult& forward, StepResult* result) {
  const size_t vocab = size_t(transformer_.vocab_rows().size());
  std::vector<SampleRow> rows;
  size_t first_logit = 0;
  for (const StepItem& item : plan.items) {
    if (item.score) first_logit += size_t(item.num_tokens) * vocab;
    if (!item.sample) continue;
    const Sequence& sequence = Find(item.request_id);
    rows.push_back({.logits = std::span(forward.logits).subspan(std::exchange(first_logit, first_logit + vocab), vocab),
                    .params = sequence.request.sampling,
                    .choice_index = sequence.request.choice_index,
                    .position = sequence.cache.next_position()});
  }
  const auto sampled = Sample(communicator_, int32_t(transformer_.vocab_rows().begin), rows);
  size_t next_sample = 0, first_row = 0;
  for (const StepItem& item : plan.items) {
    if (item.score) {  // its scores tell
      first_row += size_t(item.num_tokens);
      continue;
    }
    Sequence& sequence = Find(item.request_id);
    SampledToken token;
    if (item.sample) token = sampled[next_sample++];
    const auto item_rows = std::span(forward.not_finite).subspan(first_row, size_t(item.num_tokens));
    first_row += size_t(item.num_tokens);
    // A bad row in the middle of a prompt counts too: its keys may be evicted before any logit shows it.
    if (const auto bad = std::find(item_rows.begin(), item_rows.end(), 1); bad != item_rows.end()) {
      const int64_t position = sequence.cache.next_position() - item.num_tokens + (bad - item_rows.begin());
      token = {.status = NumericalError("the hidden state at position " + std::to_string(position) +
                                        " is not finite: a sum left the fixed-point range or met a NaN")};
    }
    if (item.sample && token.status.ok()) sequence.tokens.push_back(token.token);
    if (item.sample || !token.status.ok()) result->tokens.push_back({item.request_id, token});
  }
}

void ModelRunner::ScoreItems(const StepPlan& plan, const ForwardResult& forward, StepResult* result) {
  const size_t vocab = size_t(transformer_.vocab_rows().size());
  std::vector<ScoreRow> rows;
  std::vector<int64_t> first_score;  // of each item, among the scored rows
  size_t first_logit = 0;
  for (const StepItem& item : plan.items) {
    first_score.push_back(int64_t(rows.size()));
    if (!item.score) {
      first_logit += size_t(item.sample) * vocab;
      continue;
    }
    const Sequence& sequence = Find(item.request_id);
    const int64_t first_token = sequence.cache.tokens_seen() - item.num_tokens;
    const int64_t first_position = sequence.cache.next_position() - item.num_tokens;
    const bool is_compared = item.reference_item >= 0;
    WINNOW_CHECK(!is_compared || size_t(item.reference_item) + 1 < first_score.size());
    WINNOW_CHECK(!is_compared || plan.items[size_t(item.reference_item)].num_tokens == item.num_tokens);
    for (int64_t i = 0; i < item.num_tokens; ++i, first_logit += vocab) {
      rows.push_back(
          {.logits = std::span(forward.logits).subspan(first_logit, vocab),
           .target = sequence.tokens[size_t(first_token + i + 1)],
           .position = first_position + i + 1,
           .reference = is_compared ? first_score[size_t(item.reference_item)] + i : ScoreRow::kNoReference});
    }
  }
  result->scores = ScoreRows(communicator_, int32_t(transformer_.vocab_rows().begin), rows);
}

Status ModelRunner::AppendPinned(const StepPlan& plan) {
  const ModelConfig& config = transformer_.config();
  for (const StepItem& item : plan.items) {
    Sequence& sequence = Find(item.request_id);
    const EvictionSchedule::Due due = sequence.schedule.Advance(item.num_tokens);
    WINNOW_CHECK(due.pinned_block == item.pinned_block && due.evict == item.evict);
    if (item.pinned_block < 0) continue;
    const PinnedBlock& block = sequence.request.pinned[size_t(item.pinned_block)];
    const auto own = [&](const std::vector<float>& all) {
      return HeadsOf(all, config.num_layers, transformer_.kv_heads(), config.num_kv_heads);
    };
    WINNOW_RETURN_IF_ERROR(sequence.cache.Reserve(block.num_slots));
    sequence.cache.AppendPinned(block.num_slots, own(block.keys), own(block.values));
    sequence.CountPeaks();
  }
  return OkStatus();
}

Result<ReplayResult> ModelRunner::ReplayOf(const Sequence& sequence) {
  const ObservedReplay observed = sequence.policy->observations().replay;
  if (observed == ObservedReplay::kNone) return ReplayResult();
  if (observed == ObservedReplay::kUpdate && projected_norms_ == nullptr) {
    WINNOW_ASSIGN_OR_RETURN(projected_norms_, ProjectedNorms::Make(transformer_));
  }
  const CollectiveCounters before = communicator_.counters();
  const auto in_cache = std::span(sequence.tokens).first(size_t(sequence.cache.tokens_seen()));
  WINNOW_ASSIGN_OR_RETURN(
      ReplayResult replay,
      ReplayContext(transformer_, pool_,
                    {.cache = &sequence.cache,
                     .tokens = in_cache,
                     .prompt = &sequence.request.eviction.replay_prompt,
                     .sink_tokens = sequence.request.eviction.sink_tokens,
                     .norms = observed == ObservedReplay::kUpdate ? projected_norms_.get() : nullptr,
                     .replicas = &replicas_}));
  AddSince(before, communicator_.counters(), &counters_.replay);
  counters_.replay_rows += replay.rows;
  return replay;
}

Status ModelRunner::EvictDue(const StepPlan& plan, StepResult* result) {
  std::vector<DueEviction> due;
  std::vector<std::pair<Sequence*, int64_t>> pages_before;
  for (const StepItem& item : plan.items) {
    if (!item.evict) continue;
    Sequence& sequence = Find(item.request_id);
    WINNOW_ASSIGN_OR_RETURN(ReplayResult replay, ReplayOf(sequence));
    if (!replay.status.ok()) {
      EndWithError(plan, item, replay.status, result);
      continue;
    }
    due.push_back({.policy = sequence.policy.get(),
                   .request = &sequence.request,
                   .cache = &sequence.cache,
                   .num_kv_heads = transformer_.config().num_kv_heads,
                   .future = FutureOf(sequence, recordings_),
                   .replay = std::move(replay.scores),
                   .rotary_frequencies = transformer_.rotary_frequencies(),
                   .queries_kept = QueriesKept(sequence)});
    pages_before.emplace_back(&sequence, sequence.cache.num_pages());
  }
  if (due.empty()) return OkStatus();
  EvictToBudget(communicator_, due, &replicas_);
  for (const auto& [sequence, pages] : pages_before) {
    sequence->pages_evicted += pages - sequence->cache.num_pages();
    AddKeptSet(sequence->cache, &sequence->kept_hash);
  }
  return OkStatus();
}

Status ModelRunner::CheckRanks(const StepPlan& plan, const StepResult& result) {
  RankState state{.first_kv_head = transformer_.kv_heads().begin};
  for (const auto& token : result.tokens) {
    state.tokens = HashWords({state.tokens, uint64_t(token.request_id), uint64_t(uint32_t(token.sampled.token))});
  }
  for (const StepItem& item : plan.items) {
    const Sequence& sequence = Find(item.request_id);
    const SequenceCache& cache = sequence.cache;
    // Heads that compete, or layers with budgets of their own, have lengths that only their rank knows.
    const int64_t length = sequence.request.eviction.even_heads ? CommonLength(sequence) : 0;
    state.lengths =
        HashWords({state.lengths, uint64_t(cache.tokens_seen()), uint64_t(length), uint64_t(cache.evictions())});
    // Heads that share a kept set are on several ranks, one set a layer or one in all; other sets are on one rank
    // alone, or on the replicas of their head.
    const EvictionScope scope = sequence.request.eviction.scope.value_or(EvictionScope::kHead);
    const int64_t num_sets = scope == EvictionScope::kHead    ? 0
                             : scope == EvictionScope::kLayer ? cache.num_layers()
                                                              : 1;
    for (int64_t layer = 0; layer < num_sets; ++layer) {
      for (int32_t position : cache.head(layer, 0).positions) {
        state.shared_kept = HashWords({state.shared_kept, uint64_t(uint32_t(position))});
      }
    }
    if (replicas_.exist()) state.own_kept = HashWords({state.own_kept, cache.KeptHash()});
  }
  return CompareRanks(communicator_, plan.step, state);
}

}  // namespace winnow
