// Leader, workers and runners together: how answers end, and what one bad request may do to the others.
#include "engine/leader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/e2e/requests.h"
#include "tests/engine/group_engine.h"
#include "tests/support/file_editor.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

using testing::HasSubstr;

const EngineOptions kOptions{.pool_slots = 1024, .check_ranks = true, .poison_released_pages = true};
constexpr TinyModelSpec kSpec{.num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 384};

class LeaderTest : public testing::Test {
 protected:
  GroupRun Run(int num_ranks, const std::vector<Request>& requests, const SchedulerLimits& limits = {}) {
    return RunGroup(num_ranks, model_.file, model_.config, kOptions, limits, requests);
  }
  Request Ask(int64_t id, int64_t prompt_tokens, int64_t max_tokens) {
    return Greedy(id, RandomTokens(uint64_t(id), prompt_tokens, 200), max_tokens);
  }

  TinyModel model_{kSpec};
};

TEST_F(LeaderTest, AnAnswerEndsAtMaxTokens) {
  for (int64_t max_tokens : {1, 2, 9}) {
    const GroupRun run = Run(2, {Ask(0, 12, max_tokens)});
    const Completion& completion = run.completions.at(0);
    EXPECT_EQ(int64_t(completion.token_ids.size()), max_tokens);
    EXPECT_EQ(completion.logprobs.size(), completion.token_ids.size());
    EXPECT_EQ(completion.finish_reason, FinishReason::kLength);
    EXPECT_EQ(completion.kv.tokens_seen, 12 + max_tokens - 1);  // the last token is not fed back
  }
}

TEST_F(LeaderTest, AnAnswerEndsWithTheStopTokenAsItsLast) {
  Request request = Ask(0, 12, 20);
  request.sampling = {.temperature = 1.5f, .seed = 3};
  const auto whole = Run(1, {request}).completions.at(0).token_ids;
  request.stop_token_ids = {-5, whole[7]};
  const auto first = std::find(whole.begin(), whole.end(), whole[7]);
  for (int num_ranks : {1, 3}) {
    const Completion completion = Run(num_ranks, {request}).completions.at(0);
    EXPECT_EQ(completion.finish_reason, FinishReason::kStop);
    EXPECT_EQ(completion.token_ids, std::vector<int32_t>(whole.begin(), first + 1));
  }
}

TEST_F(LeaderTest, AStopTokenAtMaxTokensCountsAsStop) {
  Request request = Ask(0, 12, 1);
  request.stop_token_ids = Run(1, {request}).completions.at(0).token_ids;
  EXPECT_EQ(Run(1, {request}).completions.at(0).finish_reason, FinishReason::kStop);
}

TEST_F(LeaderTest, TokensAreStreamedInTheOrderOfEachAnswer) {
  const GroupRun run = Run(2, {Ask(0, 5, 7), Ask(1, 90, 4), Ask(2, 2, 11)}, {.max_num_batched_tokens = 16});
  std::map<int64_t, std::vector<int32_t>> streamed;
  for (const auto& [id, token] : run.streamed) streamed[id].push_back(token);
  ASSERT_EQ(run.completions.size(), 3u);
  for (const auto& [id, completion] : run.completions) EXPECT_EQ(streamed[id], completion.token_ids);
}

TEST_F(LeaderTest, AllPagesAreBackInThePoolAtTheEnd) {
  std::vector<Request> requests = MixedRequests(7, 200, 12);
  for (int num_ranks : {1, 2, 3}) {
    for (int64_t pages : Run(num_ranks, requests, {.max_num_seqs = 3}).pages_left) EXPECT_EQ(pages, 0);
  }
}

TEST_F(LeaderTest, TheReportCountsWhatTheCacheKeptAndLost) {
  Request request = Ask(0, 70, 31);
  request.eviction = {.policy = "random", .budget = 40, .interval = 10, .sink_tokens = 4, .recent_tokens = 8};
  const SequenceReport alone = Run(1, {request}).completions.at(0).kv;
  // 100 tokens are seen: evictions at 50, 60, 70, 80, 90 and 100 of them.
  EXPECT_EQ(alone.tokens_seen, 100);
  EXPECT_EQ(alone.evictions, 6);
  EXPECT_EQ(alone.kept_entries, 2 * 3 * 40);
  EXPECT_EQ(alone.evicted_entries, 2 * 3 * 60);
  EXPECT_EQ(alone.full_entries, 2 * 3 * 100);
  EXPECT_EQ(alone.pages_freed, 2 * 3 * 6);  // 50 slots: 4 pages; 40 slots: 3
  for (int num_ranks : {2, 3}) {
    const SequenceReport report = Run(num_ranks, {request}).completions.at(0).kv;
    EXPECT_EQ(report.kept_hash, alone.kept_hash);
    EXPECT_EQ(report.kept_entries, alone.kept_entries);
    EXPECT_EQ(report.evicted_entries, alone.evicted_entries);
    EXPECT_EQ(report.pages_freed, alone.pages_freed);
    ASSERT_EQ(int(report.peak_bytes_per_rank.size()), num_ranks);
    int64_t sum = 0;
    for (int64_t bytes : report.peak_bytes_per_rank) sum += bytes;
    EXPECT_EQ(sum, alone.peak_bytes_per_rank[0]);
  }
}

TEST_F(LeaderTest, ARequestThatCanNeverFitIsRefusedAndTheOthersRun) {
  const auto communicator = MakeLocalCommunicator();
  const auto engine = RankEngine::Make(model_.file, model_.config, kOptions, *communicator, nullptr).value();
  Leader leader(engine->runner(), *communicator, {.pool_slots = kOptions.pool_slots});
  EXPECT_EQ(leader.Submit(Ask(0, 1000, 100)).code(), StatusCode::kOutOfMemory);
  EXPECT_TRUE(leader.Submit(Ask(1, 10, 3)).ok());
  std::vector<int64_t> completed;
  EXPECT_TRUE(leader
                  .Run({.on_token = nullptr,
                        .on_completion = [&](const Completion& done) { completed.push_back(done.request_id); }})
                  .ok());
  EXPECT_EQ(completed, std::vector<int64_t>{1});
}

constexpr int32_t kBadToken = 251;

TinyModelSpec EditableSpec() {
  TinyModelSpec spec = kSpec;
  spec.weights = spec.embeddings = DType::kF32;
  spec.tied_embeddings = false;
  return spec;
}

// The one request whose prompt holds the bad token fails; the others get the bits they get without it.
void ExpectOneFailure(const GgufFile& file, const ModelConfig& config) {
  std::vector<Request> good = MixedRequests(4, 200, 10);
  Request bad = MixedRequest(4, 200, 10);
  bad.prompt[bad.prompt.size() / 2] = kBadToken;
  const GroupRun without = RunGroup(1, file, config, kOptions, {}, good);
  good.insert(good.begin() + 1, bad);
  for (int num_ranks : {1, 3}) {
    for (int64_t chunk : {512, 20}) {
      const GroupRun with = RunGroup(num_ranks, file, config, kOptions, {.max_num_batched_tokens = chunk}, good);
      ASSERT_EQ(with.completions.size(), 5u);
      const Completion& failed = with.completions.at(4);
      EXPECT_EQ(failed.finish_reason, FinishReason::kError);
      EXPECT_EQ(failed.error.code(), StatusCode::kNumerical);
      EXPECT_THAT(failed.error.message(), HasSubstr("position " + std::to_string(bad.prompt.size() / 2)));
      EXPECT_TRUE(failed.token_ids.empty());
      for (const auto& [id, completion] : without.completions) {
        EXPECT_EQ(completion.finish_reason, FinishReason::kLength);
        const Completion& other = with.completions.at(id);
        EXPECT_EQ(other.finish_reason, FinishReason::kLength);
        EXPECT_EQ(other.token_ids, completion.token_ids) << id;
        EXPECT_EQ(other.logprobs, completion.logprobs) << id;
        EXPECT_EQ(other.kv.kept_hash, completion.kv.kept_hash) << id;
      }
      for (int64_t pages : with.pages_left) EXPECT_EQ(pages, 0);
    }
  }
}

TEST(NumericalFailure, NanInTheWeightsFailsTheRequestThatMeetsItAndNoOther) {
  FileEditor editor(EditableSpec());
  editor.KeepFromBeingDrawn(kBadToken);
  editor.Set("token_embd.weight", kBadToken, 3, std::numeric_limits<float>::quiet_NaN());
  ExpectOneFailure(editor.Open(), editor.config());
}

TEST(NumericalFailure, ASumOutOfRangeFailsTheRequestThatMeetsItAndNoOther) {
  // Column 0 of the hidden state is 0 up to the first FFN for all but the bad token; there it meets large weights.
  FileEditor editor(EditableSpec());
  editor.KeepFromBeingDrawn(kBadToken);
  for (int64_t token = 0; token < editor.Rows("token_embd.weight"); ++token) {
    editor.Set("token_embd.weight", token, 0, token == kBadToken ? 50.0f : 0.0f);
  }
  for (int64_t column = 0; column < editor.config().hidden_size; ++column) {
    editor.Set("blk.0.attn_output.weight", 0, column, 0.0f);
  }
  for (int64_t row = 0; row < editor.config().ffn_size; ++row) {
    editor.Set("blk.0.ffn_gate.weight", row, 0, 1e4f);
    editor.Set("blk.0.ffn_up.weight", row, 0, 1e4f);
  }
  ExpectOneFailure(editor.Open(), editor.config());
}

}  // namespace
}  // namespace winnow
