// What a group says it has computed, stored and sent, against the formulas that the headers promise.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/e2e/requests.h"
#include "tests/engine/group_engine.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

constexpr int64_t kLayers = 2, kHeads = 3, kHeadDim = 32, kHidden = 6 * kHeadDim;
constexpr TinyModelSpec kSpec{
    .num_layers = kLayers, .num_query_heads = 6, .num_kv_heads = kHeads, .head_dim = kHeadDim, .ffn_size = 768};
const EngineOptions kOptions{.pool_slots = 1024};

int64_t Sum(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t(0));
}

class WorkReportTest : public testing::Test {
 protected:
  WorkReport Run(int num_ranks, const std::vector<Request>& requests, const SchedulerLimits& limits = {}) {
    return RunGroup(num_ranks, model_.file, model_.config, kOptions, limits, requests).work;
  }
  // Greedy, nothing evicted.
  std::vector<Request> Requests() {
    std::vector<Request> requests;
    for (int64_t id = 0; id < 3; ++id) {
      requests.push_back(Greedy(id, RandomTokens(uint64_t(id), 20 + 9 * id, 200), 8));
    }
    return requests;
  }

  TinyModel model_{kSpec};
};

TEST_F(WorkReportTest, RanksShareWeightsAndProductsWithoutOverlap) {
  const WorkReport one = Run(1, Requests());
  ASSERT_EQ(one.weight_bytes.size(), 1u);
  ASSERT_GT(one.matmul_flops[0], 0);
  for (int num_ranks : {2, 3}) {
    const WorkReport work = Run(num_ranks, Requests());
    ASSERT_EQ(int(work.matmul_flops.size()), num_ranks);
    EXPECT_EQ(Sum(work.matmul_flops), one.matmul_flops[0]);
    // Norms stand on every rank.
    EXPECT_NEAR(double(Sum(work.weight_bytes)), double(one.weight_bytes[0]), 0.05 * double(one.weight_bytes[0]));
    for (int rank = 0; rank < num_ranks; ++rank) {
      // Two of three heads are the largest share of two ranks.
      const double share = double(work.matmul_flops[size_t(rank)]) / double(one.matmul_flops[0]);
      EXPECT_LT(share, num_ranks == 2 ? 0.62 : 0.40);
      EXPECT_GT(share, num_ranks == 2 ? 0.38 : 0.27);
    }
  }
}

TEST_F(WorkReportTest, ProductsAreCountedForEveryRow) {
  const auto requests = Requests();
  const WorkReport work = Run(1, requests);
  int64_t rows = 0;
  for (const Request& request : requests) rows += int64_t(request.prompt.size()) + request.max_tokens - 1;
  EXPECT_EQ(work.rows, rows);
  EXPECT_EQ(work.sampled_rows, 3 * 8);
  const int64_t per_row = kLayers * kHidden * (2 * kHidden + 2 * kHeads * kHeadDim + 3 * kSpec.ffn_size);
  EXPECT_EQ(work.matmul_flops[0], 2 * (rows * per_row + work.sampled_rows * kHidden * model_.config.vocab_size));
}

TEST_F(WorkReportTest, CollectivesEqualTheFormulas) {
  for (int num_ranks : {2, 3}) {
    const WorkReport work = Run(num_ranks, Requests());
    EXPECT_EQ(work.forward.calls, work.steps * (1 + 2 * kLayers));
    EXPECT_EQ(work.forward.payload_bytes, work.rows * (4 * kHidden + 16 * kLayers * (kHidden + 1)));
    EXPECT_EQ(work.sampling.calls, work.steps * 2);  // every step samples
    EXPECT_EQ(work.sampling.payload_bytes, work.sampled_rows * (24 + 8));
    EXPECT_GE(work.total.calls, work.forward.calls + work.sampling.calls);
  }
}

// Five ranks on three KV heads: the first two are on two ranks each, so that keys and values are computed 5 / 3 times.
TEST_F(WorkReportTest, ReplicasRepeatKeysAndValuesAloneAndSendWhatTheirQueryHeadsHaveSeen) {
  std::vector<Request> requests = Requests();
  const WorkReport one = Run(1, requests), five = Run(5, requests);
  const int64_t kv_flops = 2 * five.rows * kLayers * kHidden * 2 * kHeadDim;  // of one KV head
  EXPECT_EQ(Sum(five.matmul_flops), one.matmul_flops[0] + 2 * kv_flops);
  EXPECT_EQ(five.replicas.calls, 0) << "nothing is evicted";
  // Heads of 20 slots that follow attention, evicted once, and their pages on every replica.
  requests.resize(1);
  requests[0].eviction = {.policy = "h2o", .budget = 15, .interval = 5, .sink_tokens = 2, .recent_tokens = 4};
  requests[0].max_tokens = 3;
  const WorkReport evicted = Run(5, requests);
  EXPECT_EQ(evicted.replicas.calls, 1);
  EXPECT_EQ(evicted.replicas.payload_bytes, 8 * 20 * kLayers);
  const int64_t page_bytes = KvLayout{kHeadDim, DType::kBF16}.page_bytes();
  EXPECT_EQ(evicted.kv_peak_bytes, std::vector<int64_t>(5, kLayers * 2 * page_bytes));
}

TEST_F(WorkReportTest, StepsThatSampleNothingSendNothingForSampling) {
  const WorkReport work = Run(2, Requests(), {.max_num_seqs = 1, .max_num_batched_tokens = 10});
  EXPECT_EQ(work.sampling.calls, 3 * 8 * 2);
  EXPECT_GT(work.steps, 3 * 8);
  EXPECT_EQ(work.forward.calls, work.steps * (1 + 2 * kLayers));
}

TEST_F(WorkReportTest, OneRankSendsNothing) {
  const WorkReport work = Run(1, Requests());
  EXPECT_EQ(work.total.calls, 0);
  EXPECT_EQ(work.total.payload_bytes, 0);
}

TEST_F(WorkReportTest, PeakCacheBytesEqualThePagesOfTheRanksHeads) {
  const int64_t page_bytes = KvLayout{kHeadDim, DType::kBF16}.page_bytes();
  EXPECT_EQ(page_bytes, 2 * 16 * kHeadDim * 2);
  Request full = Requests()[2];  // 38 + 8 - 1 tokens: 3 pages per head
  full.id = 0;
  EXPECT_EQ(Run(1, {full}).kv_peak_bytes, (std::vector<int64_t>{kLayers * 3 * 3 * page_bytes}));
  EXPECT_EQ(Run(2, {full}).kv_peak_bytes,
            (std::vector<int64_t>{kLayers * 2 * 3 * page_bytes, kLayers * 1 * 3 * page_bytes}));
  EXPECT_EQ(Run(3, {full}).kv_peak_bytes, std::vector<int64_t>(3, kLayers * 3 * page_bytes));
  Request evicting = full;
  evicting.eviction = {.policy = "streaming-llm", .budget = 12, .interval = 4, .sink_tokens = 2, .recent_tokens = 4};
  EXPECT_EQ(Run(3, {evicting}).kv_peak_bytes, std::vector<int64_t>(3, kLayers * 1 * page_bytes));
}

}  // namespace
}  // namespace winnow
