// The queries of the observation window, as steps leave them in the caches: the same for chunks of any size, batches
// and rank counts, of the window alone, and only for texts whose policy asks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/e2e/requests.h"
#include "tests/engine/group_engine.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

constexpr int64_t kWindow = 8, kBudget = 30, kInterval = 12, kPrompt = 50, kMaxTokens = 20;

struct Held {
  int64_t rows = 0;
  std::vector<float> of_head;
  bool operator==(const Held&) const = default;
};
// By tokens seen, layer and KV head of the model.
using Seen = std::map<std::tuple<int64_t, int64_t, int64_t>, Held>;

class QueryCapture : public testing::Test {
 protected:
  static Request Ask(int64_t id = 0, int64_t interval = kInterval) {
    Request request;
    request.id = id;
    request.prompt = RandomTokens(11, kPrompt, 250);
    request.max_tokens = kMaxTokens;
    request.eviction = ResolveEviction({.policy = "r-kv", .budget = kBudget, .interval = interval, .recent_tokens = 3},
                                       {.prompt_tokens = kPrompt})
                           .value();
    return request;
  }

  // What request `id` holds after each of its steps.
  Seen Run(int num_ranks, const std::vector<Request>& requests, int64_t chunk, int64_t id = 0) {
    Seen seen;
    std::mutex mutex;  // guards seen and others
    int64_t others = 0;
    const auto watch = [&](int, const StepItem& item, const SequenceCache& cache, PagePool&) {
      const std::lock_guard lock(mutex);
      if (item.request_id != id) {
        others += requests[size_t(item.request_id)].eviction.policy != "r-kv" ? cache.queries().num_rows() : 0;
        return;
      }
      for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
        for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
          seen[{cache.tokens_seen(), layer, cache.first_kv_head() + head}] = {cache.queries().num_rows(),
                                                                              cache.queries().head(layer, head)};
        }
      }
    };
    RunGroup(num_ranks, model_.file, model_.config, {.pool_slots = 1024, .check_ranks = true},
             {.max_num_batched_tokens = chunk}, requests, watch);
    EXPECT_EQ(others, 0) << "queries of texts that nobody asked for";
    return seen;
  }

  TinyModel model_{{.num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 384}};
};

TEST_F(QueryCapture, HoldsTheWindowBeforeEachEvictionAndNothingAfterIt) {
  for (int64_t interval : {kInterval, int64_t(5)}) {  // the second is shorter than the window
    for (const auto& [key, held] : Run(1, {Ask(0, interval)}, 1)) {
      const int64_t tokens = std::get<0>(key), since = (tokens - kBudget) % interval;
      const bool is_first = tokens < kBudget + interval;
      const int64_t to_next = is_first ? kBudget + interval - tokens : interval - since;
      int64_t expected = std::max<int64_t>(0, kWindow - to_next);
      if (!is_first) expected = std::min(expected, since);
      ASSERT_EQ(held.rows, expected) << tokens << " tokens, interval " << interval;
      ASSERT_EQ(int64_t(held.of_head.size()), held.rows * 2 * model_.config.head_dim);
    }
  }
}

TEST_F(QueryCapture, ChunksBatchesAndRanksHoldTheSameBits) {
  const Seen one = Run(1, {Ask()}, 1);
  int64_t compared = 0;
  for (int num_ranks : {1, 2, 3}) {
    for (int64_t chunk : {1, 7, 64}) {
      // Neighbours before and behind it in a step: of the same policy, and of others.
      const std::vector<Request> requests = {Ask(0, 9), MixedRequest(1, 250, 15), Ask(2), MixedRequest(3, 250, 15)};
      for (const auto& [key, held] : Run(num_ranks, requests, chunk, 2)) {
        ASSERT_EQ(held, one.at(key)) << std::get<0>(key) << " tokens, chunks of " << chunk;
        compared += held.rows;
      }
    }
  }
  EXPECT_GT(compared, 1000);
  // Not all the same by accident.
  const int64_t before = kBudget + kInterval - 1;
  const auto& first = one.at({before, 0, 0}).of_head;
  EXPECT_NE(first, one.at({before, 1, 0}).of_head);
  EXPECT_NE(first, one.at({before, 0, 1}).of_head);
  const size_t row = size_t(2 * model_.config.head_dim);
  EXPECT_FALSE(std::equal(first.begin(), first.begin() + int64_t(row), first.begin() + int64_t(row)));
}

// A window that spans evictions holds its newest tokens whatever lies between them.
TEST_F(QueryCapture, AWindowOverEvictionsHoldsTheNewestTokensInAnyChunks) {
  constexpr int64_t kLongWindow = 256, kLongPrompt = 330;
  Request request = Ask();
  request.prompt = RandomTokens(11, kLongPrompt, 250);
  request.max_tokens = 1;
  request.eviction =
      ResolveEviction({.policy = "expected-attention", .budget = kBudget, .interval = kInterval, .recent_tokens = 3},
                      {.prompt_tokens = kLongPrompt})
          .value();
  const Seen one = Run(1, {request}, 1);
  std::vector<float> all;  // queries of layer 1, head 2
  const int64_t floats = 2 * model_.config.head_dim;
  int64_t trimmed = 0;
  for (const auto& [key, held] : one) {
    const auto& [tokens, layer, head] = key;
    const bool is_first = tokens < kBudget + kInterval;
    const int64_t to_next = is_first ? kBudget + kInterval - tokens : kInterval - (tokens - kBudget) % kInterval;
    ASSERT_EQ(held.rows, std::clamp<int64_t>(kLongWindow - to_next, 0, tokens)) << tokens << " tokens";
    if (layer != 1 || head != 2) continue;
    all.insert(all.end(), held.of_head.end() - floats, held.of_head.end());
    ASSERT_TRUE(std::equal(held.of_head.begin(), held.of_head.end(), all.end() - held.rows * floats));
    trimmed += held.rows < tokens;
  }
  EXPECT_GT(trimmed, 50);
  for (const auto& [key, held] : Run(3, {request}, 47)) ASSERT_EQ(held, one.at(key)) << std::get<0>(key) << " tokens";
}

}  // namespace
}  // namespace winnow
