// What went wrong in other systems with evicted caches, tried on ours. The comment says what happened there. Cases that
// other tests hold (two counters, compaction, refused architectures, rank counts, samplers) are not repeated here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "tests/e2e/requests.h"
#include "tests/engine/group_engine.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

constexpr TinyModelSpec kSpec{.num_query_heads = 8, .num_kv_heads = 2, .ffn_size = 512};
const EngineOptions kOptions{.pool_slots = 2560, .check_ranks = true, .poison_released_pages = true};

Request Ask(const std::string& policy, int64_t prompt_tokens, int64_t max_tokens, int64_t budget, int64_t interval) {
  Request request;
  request.prompt = RandomTokens(17, prompt_tokens, 250);
  request.max_tokens = max_tokens;
  request.sampling = {.temperature = 1.0f, .seed = 3};
  const EvictionSettings asked{
      .policy = policy, .budget = budget, .interval = interval, .sink_tokens = 4, .recent_tokens = 8};
  request.eviction = ResolveEviction(asked, {.prompt_tokens = prompt_tokens}).value();
  return request;
}

class FieldCases : public testing::Test {
 protected:
  Completion Run(int num_ranks, const Request& request, int64_t chunk, const CacheWatch& watch = nullptr) {
    return RunGroup(num_ranks, model_.file, model_.config, kOptions, {.max_num_batched_tokens = chunk}, {request},
                    watch)
        .completions.at(0);
  }
  TinyModel model_{kSpec};
};

// The position counter was reset to the number of kept rows: a text of 300 tokens at budget 128 went on at 128.
TEST_F(FieldCases, PositionsCountTokensSeenOnEveryRankAndLayerWhileLengthsStayBounded) {
  const Request request = Ask("h2o", 10, 291, 64, 1);  // a token a step, an eviction a token
  const auto watch = [&](int, const StepItem&, const SequenceCache& cache, PagePool&) {
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
      for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
        ASSERT_EQ(cache.head(layer, head).positions.back(), cache.tokens_seen() - 1);
        ASSERT_LE(cache.head(layer, head).length(), 64);
      }
    }
    ASSERT_EQ(cache.next_position(), cache.tokens_seen());
  };
  for (int ranks : {1, 2}) EXPECT_EQ(Run(ranks, request, 1, watch).kv.tokens_seen, 300);
}

// One buffer was both the angle and the write slot: after the first eviction a batch of rows had a phase error that
// single rows did not have. 100 tokens, evicted to 40, then 16 more one by one and at once.
TEST_F(FieldCases, RowsAfterAnEvictionAreTheSameOneByOneAndAsOneChunk) {
  for (const char* policy : {"streaming-llm", "h2o", "random", "snapkv"}) {
    const Request request = Ask(policy, 116, 4, 40, 60);
    const Completion at_once = Run(1, request, 512);
    ASSERT_EQ(at_once.kv.evictions, 1) << policy;
    ExpectSameBits(Run(1, request, 1), at_once);
    ExpectSameBits(Run(2, request, 16), at_once);
  }
}

// Survivors were re-indexed, or re-rotated at every step, and drifted. Keys of the first layer are a function of token
// and position alone: after 2000 evictions each survivor must still hold the very bits of a fresh rotation.
TEST_F(FieldCases, SurvivorsOf2000EvictionsHoldTheKeysOfAFreshRotation) {
  constexpr int64_t kTokens = 2040, kBudget = 40;
  std::vector<std::vector<float>> fresh;  // [head][position * head_dim]
  int64_t evictions = 0;
  const auto first_layer = [](const SequenceCache& cache) {
    std::vector<std::vector<float>> keys;
    for (int64_t head = 0; head < cache.num_kv_heads(); ++head) keys.push_back(cache.ReadKeys(0, head));
    return keys;
  };
  Run(1, Ask("full", kTokens, 1, 0, 1), 512, [&](int, const StepItem&, const SequenceCache& cache, PagePool&) {
    if (cache.tokens_seen() == kTokens) fresh = first_layer(cache);
  });
  Run(1, Ask("random", kTokens, 1, kBudget, 1), 512, [&](int, const StepItem&, const SequenceCache& cache, PagePool&) {
    evictions = cache.evictions();
    if (cache.tokens_seen() != kTokens) return;
    const auto kept = first_layer(cache);
    const size_t head_dim = size_t(cache.head_dim());
    for (size_t head = 0; head < kept.size(); ++head) {
      const auto& positions = cache.head(0, int64_t(head)).positions;
      for (size_t slot = 0; slot < positions.size(); ++slot) {
        const auto key = kept[head].begin() + int64_t(slot * head_dim);
        const auto want = fresh[head].begin() + int64_t(size_t(positions[slot]) * head_dim);
        ASSERT_TRUE(std::equal(key, key + int64_t(head_dim), want)) << "position " << positions[slot];
      }
    }
  });
  EXPECT_EQ(evictions, kTokens - kBudget);
}

// With grouped queries the cache was stored once per query head, four times too large.
TEST_F(FieldCases, TheCacheIsStoredOncePerKvHead) {
  const auto bytes = [&](int64_t slots) {
    return 2 * model_.config.num_layers * model_.config.num_kv_heads * slots * model_.config.head_dim * 2;  // bf16
  };
  EXPECT_EQ(Run(1, Ask("full", 128, 1, 0, 1), 512).kv.peak_bytes_per_rank[0], bytes(128));
  EXPECT_EQ(Run(1, Ask("snapkv", 128, 1, 32, 16), 512).kv.peak_bytes_per_rank[0], bytes(48));
}

// Only the last window of queries was masked, so that earlier ones "saw" the future. In single precision cache and
// queries of one token at a time nothing can be seen that is not there yet: the mass of a prompt read at once must be
// the mass of one read token by token, and adds up to one weight per query and query head.
TEST_F(FieldCases, MassOfAPromptReadAtOnceIsTheMassOfSingleTokens) {
  for (const char* policy : {"h2o", "snapkv"}) {
    for (int64_t window : {4, 8, 20, 64}) {  // longer than the prompt too
      Request request = Ask("h2o", 20, 1, 64, 16);
      request.eviction.policy = policy;
      request.eviction.budget = 100;
      request.eviction.recent_tokens = window;
      const auto mass_of = [&](int64_t chunk) {
        std::vector<std::vector<int64_t>> mass;
        Run(1, request, chunk, [&](int, const StepItem&, const SequenceCache& cache, PagePool&) {
          if (cache.tokens_seen() == 20) mass = cache.ReadMass();
        });
        return mass;
      };
      const auto at_once = mass_of(512);
      EXPECT_EQ(mass_of(1), at_once) << policy << " " << window;
      if (std::string(policy) == "snapkv") continue;
      for (const auto& head : at_once) {
        double sum = 0;
        for (int64_t steps : head) sum += double(steps) * 0x1p-30;
        EXPECT_NEAR(sum, 20 * 4, 1e-5) << "20 queries of 4 query heads";
        EXPECT_GT(head[0], head[19]) << "the first slot is seen by 20 queries, the last by its own";
      }
    }
  }
}

// Cumulative scores favoured early tokens for ever, and new ones went as soon as they left the recent window. 1000
// tokens at budget 128: the share of kept tokens younger than 200 steps, and that of those beyond the recent ones. h2o
// is the paper's cumulative form and does freeze: its newest half of the budget is all that moves.
TEST_F(FieldCases, NewTokensCanStayBeyondTheRecentWindow) {
  for (const std::string& policy : PoliciesOfAnyText()) {
    const auto made = MakePolicy(policy).value();
    if (!made->evicts() || made->timing() != EvictionTiming::kChunked) continue;
    const Request request = Ask(policy, 8, 993, 128, 32);
    double young = 0, entered = 0, kept = 0;
    const auto watch = [&](int, const StepItem&, const SequenceCache& cache, PagePool&) {
      if (cache.tokens_seen() != 1000) return;
      for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
        for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
          for (int32_t position : cache.head(layer, head).positions) {
            kept += 1;
            young += position >= 800;
            // Older than any interval and window, younger than the first 500.
            entered += position >= 500 && position < 1000 - request.eviction.recent_tokens - 32;
          }
        }
      }
    };
    Run(1, request, 512, watch);
    EXPECT_GT(young / kept, 0.15) << policy;
    if (policy != "h2o") {
      EXPECT_GT(entered, 0) << policy;
    }
  }
}

// "0.5" meant kept for one method and dropped for another. One definition, from raw counters, on any rank count.
TEST_F(FieldCases, TheKeptRatioIsEntriesHeldOverEntriesOfAFullCache) {
  for (const std::string& policy : PoliciesOfAnyText()) {
    const Request request = Ask(policy, 480, 33, 64, 16);
    for (int ranks : {1, 2}) {
      std::map<std::pair<int, int64_t>, int64_t> held;  // (rank, tokens seen)
      std::mutex mutex;                                 // guards held
      const auto watch = [&](int rank, const StepItem&, const SequenceCache& cache, PagePool&) {
        const std::lock_guard lock(mutex);
        held[{rank, cache.tokens_seen()}] = cache.entries();
      };
      const SequenceReport report = Run(ranks, request, 64, watch).kv;
      int64_t sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += held[{rank, 512}];
      EXPECT_EQ(report.kept_entries, sum) << policy;
      EXPECT_EQ(report.full_entries, 512 * 2 * 2);
      EXPECT_EQ(report.kept_entries + report.evicted_entries, report.full_entries);
    }
  }
}

// Every rank sampled for itself at a high temperature, and the group hung. 64 requests on 4 ranks, compared after every
// step.
TEST(FieldCasesOfGroups, FourRanksAgreeOnHotSamplesOfManyRequests) {
  const TinyModel model({.num_query_heads = 5, .num_kv_heads = 5, .ffn_size = 640});
  std::vector<Request> requests;
  for (int64_t id = 0; id < 64; ++id) {
    Request request = Ask(PoliciesOfAnyText()[size_t(id) % PoliciesOfAnyText().size()], 6, 20, 16, 4);
    request.id = id;
    request.sampling = {.temperature = 1.5f, .seed = uint64_t(id)};
    requests.push_back(request);
  }
  const SchedulerLimits limits{.max_num_seqs = 16};
  const GroupRun four = RunGroup(4, model.file, model.config, kOptions, limits, requests);
  const GroupRun one = RunGroup(1, model.file, model.config, kOptions, limits, requests);
  for (int64_t id = 0; id < 64; ++id) ExpectSameBits(four.completions.at(id), one.completions.at(id));
}

// A padded vocabulary let ids be drawn that no token has. An odd vocabulary on 2 and 3 ranks, nearly uniform draws.
TEST_F(FieldCases, HotSamplesStayInsideAVocabularyThatDoesNotDivide) {
  Request request = Ask("full", 4, 1500, 0, 1);
  request.sampling = {.temperature = 100.0f, .seed = 9};
  const TinyModel model({.num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 384});
  const GroupRun run = RunGroup(3, model.file, model.config, kOptions, {}, {request});
  std::map<int32_t, int64_t> drawn;
  for (int32_t id : run.completions.at(0).token_ids) ++drawn[id];
  EXPECT_GE(drawn.begin()->first, 0);
  EXPECT_LT(drawn.rbegin()->first, model.config.vocab_size);
  EXPECT_GT(int64_t(drawn.size()), model.config.vocab_size * 9 / 10);
  for (float logprob : run.completions.at(0).logprobs) EXPECT_TRUE(std::isfinite(logprob) && logprob <= 0);
}

}  // namespace
}  // namespace winnow
