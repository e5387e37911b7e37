// Runs requests on a group of ranks and keeps everything that exactness is about: tokens, log-probabilities, kept sets
// and a digest of every logit. What two runs of the same requests must agree on, bit for bit, is RunOutcome.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/leader.h"
#include "engine/rank_engine.h"

namespace winnow {

struct RunSettings {
  EngineOptions engine;
  SchedulerLimits limits;  // pool_slots as in engine if 0
  // Sampled tokens that a request had before this run, so that the digests of both parts add up to that of the whole.
  std::map<int64_t, uint64_t> sampled_before = {};
};

struct RequestOutcome {
  std::vector<int32_t> token_ids;
  std::vector<float> logprobs;
  FinishReason finish_reason = FinishReason::kLength;
  uint64_t kept_hash = 0;
  int64_t kept_entries = 0, evicted_entries = 0, evictions = 0;
  uint64_t logits_digest = 0;  // of the bits of every logit that was sampled from, over all ranks

  bool operator==(const RequestOutcome&) const = default;
};

struct RunOutcome {
  std::vector<RequestOutcome> requests;                         // by request id
  std::map<int64_t, std::shared_ptr<const ResumePoint>> saved;  // by request id, of those that asked; not compared
  WorkReport work;                                              // not compared
  Status status;

  bool SameBits(const RunOutcome& other) const { return requests == other.requests; }
};

// One rank's part, for communicators of any kind. The outcome is complete on rank 0 only.
RunOutcome RunRank(const TensorSource& source, const ModelConfig& config, const RunSettings& settings,
                   const std::vector<Request>& requests, Communicator& communicator);
// The same on an engine that is there already (settings.engine as it was made with), so that a model is loaded once.
RunOutcome RunOnEngine(RankEngine& engine, const ModelConfig& config, const RunSettings& settings,
                       const std::vector<Request>& requests, Communicator& communicator);

// The same on `num_ranks` ranks that are threads of this process.
RunOutcome RunOnThreads(int num_ranks, const TensorSource& source, const ModelConfig& config,
                        const RunSettings& settings, const std::vector<Request>& requests);

// One line a request: readable, and equal exactly when the bits are.
std::string Describe(const RunOutcome& outcome);

}  // namespace winnow
