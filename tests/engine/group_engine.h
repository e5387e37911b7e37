// Runs requests on thread ranks and keeps what the tests of leader, worker and runner look at.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "engine/leader.h"
#include "engine/rank_engine.h"
#include "engine/worker.h"

namespace winnow {

struct GroupRun {
  std::map<int64_t, Completion> completions;  // by request id
  std::vector<std::pair<int64_t, int32_t>> streamed;
  WorkReport work;
  std::vector<int64_t> pages_left;  // in use when the run is over, one number a rank
};

inline Request Greedy(int64_t id, const std::vector<int32_t>& prompt, int64_t max_tokens) {
  Request request;
  request.id = id;
  request.prompt = prompt;
  request.max_tokens = max_tokens;
  return request;
}

// Sees every rank's part of a cache after each step, evictions done. Called by the ranks' threads.
using CacheWatch = std::function<void(int rank, const StepItem&, const SequenceCache&, PagePool&)>;

// `requests` keep their ids. pool_slots of `limits` comes from `options`. What the prompts of requests that name a
// recording attend to is recorded first.
inline GroupRun RunGroup(int num_ranks, const GgufFile& file, const ModelConfig& config, const EngineOptions& options,
                         SchedulerLimits limits, const std::vector<Request>& requests,
                         const CacheWatch& watch = nullptr) {
  GroupRun run;
  run.pages_left.resize(static_cast<size_t>(num_ranks));
  limits.pool_slots = options.pool_slots;
  std::mutex mutex;  // guards `run`
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    auto made = RankEngine::Make(file, config, options, communicator, nullptr);
    ASSERT_TRUE(made.ok()) << made.status().message();
    const auto engine = std::move(made).value();
    if (watch) {
      engine->runner().set_cache_observer([&](const StepItem& item, const SequenceCache& cache) {
        watch(communicator.rank(), item, cache, engine->pool());
      });
    }
    for (const Request& request : requests) {
      if (request.recording == 0) continue;
      const Status recorded =
          engine->runner().Record(request.recording, request.prompt, BlocksBetweenEvictions(request.eviction), nullptr);
      EXPECT_TRUE(recorded.ok()) << recorded.message();
    }
    GroupRun mine;
    if (communicator.rank() == 0) {
      Leader leader(engine->runner(), communicator, limits);
      for (const Request& request : requests) EXPECT_TRUE(leader.Submit(request).ok());
      const Status status =
          leader.Run({.on_token = [&](int64_t id, int32_t token) { mine.streamed.emplace_back(id, token); },
                      .on_completion =
                          [&](const Completion& completion) { mine.completions[completion.request_id] = completion; }});
      EXPECT_TRUE(status.ok()) << status.message();
    } else {
      const Status status = RunWorker(engine->runner(), communicator);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    mine.work = engine->GatherWork();
    const std::lock_guard lock(mutex);
    run.pages_left[size_t(communicator.rank())] = engine->pool().num_used();
    if (communicator.rank() != 0) return;
    run.completions = std::move(mine.completions);
    run.streamed = std::move(mine.streamed);
    run.work = mine.work;
  });
  return run;
}

// What two runs of a request must have in common, bit for bit. Log-probabilities are of all logits, so that a logit
// cannot differ without them.
inline void ExpectSameBits(const Completion& got, const Completion& want) {
  EXPECT_EQ(got.token_ids, want.token_ids);
  EXPECT_EQ(got.logprobs, want.logprobs);
  EXPECT_EQ(got.finish_reason, want.finish_reason);
  EXPECT_EQ(got.kv.tokens_seen, want.kv.tokens_seen);
  EXPECT_EQ(got.kv.evictions, want.kv.evictions);
  EXPECT_EQ(got.kv.kept_entries, want.kv.kept_entries);
  EXPECT_EQ(got.kv.pinned_entries, want.kv.pinned_entries);
  EXPECT_EQ(got.kv.evicted_entries, want.kv.evicted_entries);
  EXPECT_EQ(got.kv.kept_hash, want.kv.kept_hash);
}

}  // namespace winnow
