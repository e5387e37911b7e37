#include "tests/support/group_run.h"

#include <bit>
#include <map>
#include <mutex>

#include "base/hash.h"
#include "engine/worker.h"

namespace winnow {
namespace {

// A wrapping sum over (step of the request, token id, bits): shards of the vocabulary add to the same value for any
// split.
class LogitsDigest {
 public:
  LogitsDigest(Range vocab, const std::map<int64_t, uint64_t>& sampled_before) : vocab_(vocab) {
    for (const auto& [request_id, steps] : sampled_before) entries_[request_id].steps = steps;
  }

  void Add(const StepPlan& plan, std::span<const float> logits) {
    size_t row = 0;
    for (const StepItem& item : plan.items) {
      if (!item.sample) continue;
      const auto part = logits.subspan(row++ * size_t(vocab_.size()), size_t(vocab_.size()));
      Entry& entry = entries_[item.request_id];
      ++entry.steps;
      for (size_t i = 0; i < part.size(); ++i) {
        entry.digest += HashWords({entry.steps, uint64_t(vocab_.begin) + i, std::bit_cast<uint32_t>(part[i])});
      }
    }
  }
  uint64_t Of(int64_t request_id) { return entries_[request_id].digest; }

 private:
  struct Entry {
    uint64_t steps = 0, digest = 0;
  };
  Range vocab_;
  std::map<int64_t, Entry> entries_;
};

RequestOutcome ToOutcome(const Completion& completion) {
  return {.token_ids = completion.token_ids,
          .logprobs = completion.logprobs,
          .finish_reason = completion.finish_reason,
          .kept_hash = completion.kv.kept_hash,
          .kept_entries = completion.kv.kept_entries,
          .evicted_entries = completion.kv.evicted_entries,
          .evictions = completion.kv.evictions};
}

}  // namespace

RunOutcome RunRank(const TensorSource& source, const ModelConfig& config, const RunSettings& settings,
                   const std::vector<Request>& requests, Communicator& communicator) {
  RunOutcome outcome;
  auto engine = RankEngine::Make(source, config, settings.engine, communicator, nullptr);
  outcome.status = AgreeOnStatus(communicator, engine.status());
  if (!outcome.status.ok()) return outcome;
  return RunOnEngine(**engine, config, settings, requests, communicator);
}

RunOutcome RunOnEngine(RankEngine& engine, const ModelConfig& config, const RunSettings& settings,
                       const std::vector<Request>& requests, Communicator& communicator) {
  RunOutcome outcome;
  const ShardPlan plan = MakeShardPlan(ShardDimsOf(config), communicator.size()).value();
  LogitsDigest digest(plan.vocab_rows[size_t(communicator.rank())], settings.sampled_before);
  engine.runner().set_logits_observer(
      [&](const StepPlan& step, std::span<const float> logits) { digest.Add(step, logits); });

  outcome.requests.resize(requests.size());
  if (communicator.rank() == 0) {
    SchedulerLimits limits = settings.limits;
    if (limits.pool_slots == 0) limits.pool_slots = settings.engine.pool_slots;
    Leader leader(engine.runner(), communicator, limits);
    for (const Request& request : requests) {
      outcome.status = leader.Submit(request);
      if (!outcome.status.ok()) communicator.Abort(outcome.status);
    }
    outcome.status = leader.Run({.on_token = nullptr, .on_completion = [&](const Completion& completion) {
                                   outcome.requests[size_t(completion.request_id)] = ToOutcome(completion);
                                   if (completion.kv.saved) outcome.saved[completion.request_id] = completion.kv.saved;
                                 }});
  } else {
    outcome.status = RunWorker(engine.runner(), communicator);
  }
  engine.runner().set_logits_observer(nullptr);
  outcome.work = engine.GatherWork();
  for (size_t i = 0; i < requests.size(); ++i) {
    uint64_t sum = digest.Of(requests[i].id);
    communicator.AllReduce(std::span(&sum, 1), ReduceOp::kSum);
    outcome.requests[i].logits_digest = sum;
  }
  return outcome;
}

RunOutcome RunOnThreads(int num_ranks, const TensorSource& source, const ModelConfig& config,
                        const RunSettings& settings, const std::vector<Request>& requests) {
  RunOutcome outcome;
  std::mutex mutex;  // guards outcome
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    RunOutcome mine = RunRank(source, config, settings, requests, communicator);
    const std::lock_guard lock(mutex);
    if (communicator.rank() == 0) outcome = std::move(mine);
  });
  return outcome;
}

std::string Describe(const RunOutcome& outcome) {
  std::string text;
  for (size_t i = 0; i < outcome.requests.size(); ++i) {
    const RequestOutcome& request = outcome.requests[i];
    uint64_t tokens = 0, logprobs = 0;
    for (int32_t id : request.token_ids) tokens = HashWords({tokens, uint64_t(uint32_t(id))});
    for (float value : request.logprobs) logprobs = HashWords({logprobs, std::bit_cast<uint32_t>(value)});
    char line[256];
    std::snprintf(line, sizeof line,
                  "request %zu: %zu tokens %016llx logprobs %016llx logits %016llx kept %lld evicted %lld %016llx %s\n",
                  i, request.token_ids.size(), static_cast<unsigned long long>(tokens),
                  static_cast<unsigned long long>(logprobs), static_cast<unsigned long long>(request.logits_digest),
                  static_cast<long long>(request.kept_entries), static_cast<long long>(request.evicted_entries),
                  static_cast<unsigned long long>(request.kept_hash), Name(request.finish_reason).c_str());
    text += line;
  }
  return text;
}

}  // namespace winnow
