// Executes step plans on one rank: appends, runs the model, samples, evicts. Every rank of a group has one and gives it
// the same plans; what comes back is the same on all of them. Engine thread only; collective.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/context_replay.h"
#include "engine/future_attention.h"
#include "engine/kv_replicas.h"
#include "engine/page_bound.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "kv/kv_batch.h"
#include "kv/page_pool.h"
#include "model/row_score.h"
#include "model/sampler.h"
#include "model/transformer.h"

namespace winnow {

struct StepResult {
  struct Token {
    int64_t request_id;
    SampledToken sampled;
  };
  // One per item with `sample`, in item order, and one with an error for every other item, those with `score` aside,
  // that met a sum out of range or a NaN in any of its rows: such a request ends there.
  std::vector<Token> tokens;
  std::vector<RowScore> scores;          // of every token of the items with `score`, in item order
  std::vector<SequenceReport> finished;  // one per finished sequence of the plan
};

// What this rank's runner has done so far; for the `work` part of results.
struct RunnerCounters {
  int64_t steps = 0;  // that ran the model
  int64_t rows = 0;   // token rows
  int64_t sampled_rows = 0;
  int64_t replay_rows = 0;  // of contexts repeated for their eviction; their steps are not counted
  CollectiveCounters forward, sampling, replay;
};

class ModelRunner {
 public:
  // All must outlive the runner. check_ranks: compare states after every step.
  ModelRunner(Transformer& transformer, PagePool& pool, Communicator& communicator, bool check_ranks);

  // A failure here (ranks disagree, no memory for work space) ends the run: it is the same on all ranks, or names the
  // rank.
  Result<StepResult> Execute(const StepPlan& plan);

  // Reads a known text with a full cache and keeps, as `recording`, what its blocks of queries attend to: for requests
  // of this text that name it. As RecordBlockAttention. Collective.
  Status Record(int64_t recording, std::span<const int32_t> tokens, const QueryBlocks& blocks,
                const std::function<void(int64_t tokens_done)>& progress);
  // No running sequence may need it any more.
  void DropRecording(int64_t recording) { recordings_.erase(recording); }

  const RunnerCounters& counters() const { return counters_; }
  KvReplicas& replicas() { return replicas_; }

  // How the model's KV heads lie on the ranks.
  KvShards kv_shards() const { return MakeKvShards(transformer_.config().num_layers, transformer_.plan()); }

  // Called with every step's logits of the wanted rows (this rank's vocabulary rows), for tests that compare bits.
  using LogitsObserver = std::function<void(const StepPlan&, std::span<const float> logits)>;
  void set_logits_observer(LogitsObserver observer) { logits_observer_ = std::move(observer); }

  // Called after every step with each of its items and this rank's part of its cache, evictions done; likewise.
  using CacheObserver = std::function<void(const StepItem&, const SequenceCache&)>;
  void set_cache_observer(CacheObserver observer) { cache_observer_ = std::move(observer); }

 private:
  Status Admit(const Request& request);
  SequenceReport Finish(int64_t request_id);
  Status RunItems(const StepPlan& plan, StepResult* result);
  // The queries that the step was asked for, to their sequences: of the newest num_rows[i] rows of item i.
  void KeepQueries(const StepPlan& plan, std::span<const int64_t> num_rows, const ForwardResult& forward);
  void SampleRows(const StepPlan& plan, const ForwardResult& forward, StepResult* result);
  void ScoreItems(const StepPlan& plan, const ForwardResult& forward, StepResult* result);
  // Moves every item's schedule on and appends the pinned slots that are due.
  Status AppendPinned(const StepPlan& plan);
  // The evictions that are due; one whose replay fails ends its request instead.
  Status EvictDue(const StepPlan& plan, StepResult* result);
  // What the policy of a sequence observes of a replay of its context, or nothing if it observes none.
  Result<ReplayResult> ReplayOf(const Sequence& sequence);
  Status CheckRanks(const StepPlan& plan, const StepResult& result);
  Sequence& Find(int64_t request_id);

  Transformer& transformer_;
  PagePool& pool_;
  Communicator& communicator_;
  KvReplicas replicas_;
  const bool check_ranks_;
  KvBatch kv_batch_;
  std::unique_ptr<ProjectedNorms> projected_norms_;  // once a replay has needed them
  std::map<int64_t, Sequence> sequences_;            // by request id
  std::map<int64_t, FutureAttention> recordings_;    // by Request::recording
  RunnerCounters counters_;
  LogitsObserver logits_observer_;
  CacheObserver cache_observer_;
};

}  // namespace winnow
