// Runs requests on thread ranks and keeps what the tests of leader, worker and runner look at.
#pragma once

#include <gtest/gtest.h>

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

// `requests` keep their ids. pool_slots of `limits` comes from `options`.
inline GroupRun RunGroup(int num_ranks, const GgufFile& file, const ModelConfig& config, const EngineOptions& options,
                         SchedulerLimits limits, const std::vector<Request>& requests) {
  GroupRun run;
  run.pages_left.resize(static_cast<size_t>(num_ranks));
  limits.pool_slots = options.pool_slots;
  std::mutex mutex;  // guards `run`
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    const auto engine = RankEngine::Make(file, config, options, communicator, nullptr).value();
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

}  // namespace winnow
