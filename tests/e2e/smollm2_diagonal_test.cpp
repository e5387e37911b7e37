// E1-E4 on SmolLM2: a diagonal through ranks x threads x prompt chunks x batch x replay x requests, ranks as threads.
// The full matrix runs on a tiny model (exactness_matrix_test.cpp), processes are compared by mpi_exactness. The model
// is loaded once for each number of ranks and threads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <set>

#include "tests/e2e/requests.h"
#include "tests/support/golden_logits.h"
#include "tests/support/group_run.h"

namespace winnow {
namespace {

constexpr int64_t kMaxTokens = 10, kDone = 5, kAll = 512;
constexpr int kBatch = -1;  // all seven requests together

struct Row {
  int ranks, threads;
  int64_t chunk;
  int request;  // alone, or kBatch
  bool is_replay = false;
};

// 40 runs: every pair of (ranks, threads) with a batch of seven, every request whole and replayed.
constexpr Row kDiagonal[] = {
    // clang-format off
    {1, 1, 1, 0}, {1, 1, 7, 1, true}, {1, 1, 64, kBatch}, {1, 1, kAll, 2, true}, {1, 1, 7, 3},
    {1, 2, 7, 4}, {1, 2, 64, 5, true}, {1, 2, kAll, kBatch}, {1, 2, 1, 6, true}, {1, 2, 64, 0},
    {1, 3, 64, 1}, {1, 3, kAll, 2}, {1, 3, 7, kBatch, true}, {1, 3, 1, 3, true}, {1, 3, kAll, 4, true},
    {2, 1, kAll, 5}, {2, 1, 1, 6}, {2, 1, 64, kBatch, true}, {2, 1, 7, 0, true}, {2, 1, 1, 1},
    {2, 2, 1, 2, true}, {2, 2, 7, 3}, {2, 2, kAll, kBatch}, {2, 2, 64, 4}, {2, 2, 7, 5, true},
    {2, 3, 7, 6, true}, {2, 3, 64, 0}, {2, 3, kAll, kBatch}, {2, 3, 1, 1, true}, {2, 3, 64, 2},
    {3, 1, 64, 3, true}, {3, 1, kAll, 4}, {3, 1, 7, kBatch}, {3, 1, 1, 5}, {3, 1, kAll, 6},
    {3, 2, kAll, 0, true}, {3, 2, 1, 1}, {3, 2, 64, kBatch, true}, {3, 2, 7, 2}, {3, 2, kAll, 3},
    // clang-format on
};

// Evictions in the prompt (all but snapkv-prefill) and while answering.
std::vector<Request> SevenRequests(int64_t num_layers, int64_t num_kv_heads) {
  struct Kind {
    const char* policy;
    EvictionScope scope;
  };
  constexpr Kind kKinds[] = {{"streaming-llm", EvictionScope::kHead},   {"random", EvictionScope::kLayer},
                             {"h2o", EvictionScope::kSequence},         {"snapkv", EvictionScope::kHead},
                             {"snapkv-prefill", EvictionScope::kLayer}, {"keydiff", EvictionScope::kHead},
                             {"snapkv", EvictionScope::kSequence}};
  const auto text = ReadGoldenSequences(std::string(WINNOW_GOLDEN_DIR) + "/logits_ids.bin")[0];
  std::vector<Request> requests;
  for (const Kind& kind : kKinds) {
    const int64_t index = int64_t(requests.size());
    Request request;
    request.prompt.assign(text.begin() + 30 * index, text.begin() + 30 * index + 26 + 4 * (index % 3));
    request.max_tokens = kMaxTokens;
    if (index % 2 == 1) request.sampling = {.temperature = 0.9f, .top_k = 100, .top_p = 0.95f, .min_p = 0.02f};
    request.sampling.seed = uint64_t(20 + index);
    const EvictionSettings asked{
        .policy = kind.policy, .budget = 20, .interval = 8, .sink_tokens = 2, .recent_tokens = 5, .scope = kind.scope};
    request.eviction = ResolveEviction(asked, {.prompt_tokens = request.prompt_tokens(),
                                               .shape = {.num_layers = num_layers, .num_kv_heads = num_kv_heads}})
                           .value();
    requests.push_back(request);
  }
  return requests;
}

class SmolLm2Diagonal : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("WINNOW_MODEL");
    if (path == nullptr) GTEST_SKIP() << "WINNOW_MODEL is not set";
    file_ = std::make_unique<GgufFile>(std::move(GgufFile::Open(path).value()));
    config_ = ReadModelConfig(*file_).value();
    requests_ = SevenRequests(config_.num_layers, config_.num_kv_heads);
  }
  static EngineOptions Engine(int threads) { return {.num_threads = threads, .pool_slots = 512, .check_ranks = true}; }

  // Every row of these ranks and threads, on engines made once.
  std::vector<RunOutcome> RunRows(int ranks, int threads, const std::vector<std::vector<Request>>& runs,
                                  const std::vector<int64_t>& chunks) {
    std::vector<RunOutcome> outcomes(runs.size());
    std::mutex mutex;  // guards outcomes
    RunThreadRanks(ranks, [&](Communicator& communicator) {
      const auto engine = RankEngine::Make(*file_, config_, Engine(threads), communicator, nullptr).value();
      for (size_t i = 0; i < runs.size(); ++i) {
        const RunSettings settings{.engine = Engine(threads), .limits = {.max_num_batched_tokens = chunks[i]}};
        RunOutcome mine = RunOnEngine(*engine, config_, settings, runs[i], communicator);
        const std::lock_guard lock(mutex);
        if (communicator.rank() == 0) outcomes[i] = std::move(mine);
      }
    });
    return outcomes;
  }
  std::vector<Request> RequestsOf(const Row& row) const {
    std::vector<Request> requests;
    for (int index = 0; index < 7; ++index) {
      if (row.request != kBatch && row.request != index) continue;
      Request request = requests_[size_t(index)];
      if (row.is_replay) {
        request.original_prompt_tokens = int64_t(request.prompt.size());
        const auto& tokens = expected_[size_t(index)].token_ids;
        request.prompt.insert(request.prompt.end(), tokens.begin(), tokens.begin() + kDone);
        request.max_tokens -= kDone;
      }
      request.id = int64_t(requests.size());
      requests.push_back(request);
    }
    return requests;
  }
  void ExpectSame(const Row& row, const RunOutcome& outcome) const {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    for (size_t i = 0; i < outcome.requests.size(); ++i) {
      const RequestOutcome& got = outcome.requests[i];
      const RequestOutcome& want = expected_[row.request == kBatch ? i : size_t(row.request)];
      const size_t done = row.is_replay ? size_t(kDone) : 0;
      EXPECT_EQ(got.token_ids, std::vector<int32_t>(want.token_ids.begin() + int64_t(done), want.token_ids.end()));
      EXPECT_EQ(got.logprobs, std::vector<float>(want.logprobs.begin() + int64_t(done), want.logprobs.end()));
      EXPECT_EQ(got.kept_hash, want.kept_hash);
      EXPECT_EQ(got.evictions, want.evictions);
      if (!row.is_replay) {
        EXPECT_EQ(got.logits_digest, want.logits_digest);
      }
    }
  }

  std::unique_ptr<GgufFile> file_;
  ModelConfig config_;
  std::vector<Request> requests_;
  std::vector<RequestOutcome> expected_;  // each alone, one rank, one thread, the prompt at once
};

TEST_F(SmolLm2Diagonal, FortyRunsGiveTheBitsOfEachRequestAlone) {
  std::vector<std::vector<Request>> alone;
  for (const Request& request : requests_) alone.push_back({request});
  for (const RunOutcome& outcome : RunRows(1, 1, alone, std::vector<int64_t>(alone.size(), kAll))) {
    expected_.push_back(outcome.requests[0]);
    ASSERT_EQ(int64_t(expected_.back().token_ids.size()), kMaxTokens);
    ASSERT_GT(expected_.back().evictions, 0);
  }
  std::set<std::pair<int, bool>> met;
  for (size_t first = 0; first < std::size(kDiagonal);) {
    const Row& group = kDiagonal[first];
    std::vector<std::vector<Request>> runs;
    std::vector<int64_t> chunks;
    size_t end = first;
    for (; end < std::size(kDiagonal) && kDiagonal[end].ranks == group.ranks && kDiagonal[end].threads == group.threads;
         ++end) {
      runs.push_back(RequestsOf(kDiagonal[end]));
      chunks.push_back(kDiagonal[end].chunk);
      for (int index = 0; index < 7; ++index) {
        if (kDiagonal[end].request == kBatch || kDiagonal[end].request == index)
          met.insert({index, kDiagonal[end].is_replay});
      }
    }
    const auto outcomes = RunRows(group.ranks, group.threads, runs, chunks);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      ExpectSame(kDiagonal[first + i], outcomes[i]);
      ASSERT_FALSE(HasFailure()) << group.ranks << " ranks, " << group.threads << " threads, run " << i;
    }
    first = end;
  }
  EXPECT_EQ(met.size(), 14u);
}

}  // namespace
}  // namespace winnow
