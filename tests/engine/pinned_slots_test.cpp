// Room for what comes: slots that belong to no text token (learned or restored keys and values) inside a running
// sequence. They own positions, are never evicted, count against the budget and not in what is reported as kept, and
// are there again after a replay, on any number of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/philox.h"
#include "tests/e2e/requests.h"
#include "tests/engine/group_engine.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

using testing::HasSubstr;

constexpr int64_t kPromptTokens = 60, kMaxTokens = 24, kSlots = 8;
const EngineOptions kOptions{.pool_slots = 512, .check_ranks = true, .poison_released_pages = true};

// Keys and values by layer, global head and slot: the same on whatever rank the head is.
PinnedBlock RandomBlock(const ModelConfig& config, int64_t after_tokens, int64_t num_slots = kSlots) {
  PinnedBlock block{.after_tokens = after_tokens, .num_slots = num_slots, .keys = {}, .values = {}};
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (int64_t head = 0; head < config.num_kv_heads; ++head) {
      for (int64_t slot = 0; slot < num_slots; ++slot) {
        for (int64_t dim = 0; dim < config.head_dim; ++dim) {
          const PhiloxBlock random =
              Philox(77, {uint32_t(layer), uint32_t(head), uint32_t(slot + 1000 * after_tokens), uint32_t(dim)});
          block.keys.push_back(4 * OpenUnitFloat(random[0]) - 2);
          block.values.push_back(2 * OpenUnitFloat(random[1]) - 1);
        }
      }
    }
  }
  return block;
}

class PinnedSlotsTest : public testing::Test {
 protected:
  // Evictions at 31 slots, down to 24.
  Request Ask(const std::string& policy, EvictionScope scope, const std::vector<PinnedBlock>& blocks) {
    Request request;
    request.prompt = RandomTokens(11, kPromptTokens, 250);
    request.max_tokens = kMaxTokens;
    request.sampling = {.temperature = 1.1f, .top_k = 60, .seed = 5};
    request.eviction = {
        .policy = policy, .budget = 24, .interval = 7, .sink_tokens = 3, .recent_tokens = 5, .scope = scope};
    int64_t pinned_slots = 0;
    for (const PinnedBlock& block : blocks) pinned_slots += block.num_slots;
    request.pinned = blocks;
    request.eviction =
        ResolveEviction(request.eviction, {.prompt_tokens = kPromptTokens, .pinned_slots = pinned_slots}).value();
    return request;
  }
  Completion Run(int num_ranks, const Request& request, int64_t chunk = 512, const CacheWatch& watch = nullptr) {
    const GroupRun run =
        RunGroup(num_ranks, model_.file, model_.config, kOptions, {.max_num_batched_tokens = chunk}, {request}, watch);
    EXPECT_EQ(run.pages_left, std::vector<int64_t>(size_t(num_ranks), 0));
    return run.completions.at(request.id);
  }
  std::vector<PinnedBlock> Blocks(const std::vector<int64_t>& after_tokens, int64_t num_slots = kSlots) {
    std::vector<PinnedBlock> blocks;
    for (int64_t after : after_tokens) blocks.push_back(RandomBlock(model_.config, after, num_slots));
    return blocks;
  }
  // The policies and scopes that this contract is tried on: all of them.
  template <class F>
  void ForEachPolicy(F&& f) {
    for (const std::string& policy : PoliciesOfAnyText()) {
      for (EvictionScope scope : {EvictionScope::kHead, EvictionScope::kLayer, EvictionScope::kSequence}) {
        if (!MakePolicy(policy).value()->SupportsScope(scope)) continue;
        if (MakePolicy(policy).value()->positions() == kCompactedPositions) continue;  // refuses them by name
        if (policy == "full" && scope != EvictionScope::kHead) continue;
        f(policy, scope);
        ASSERT_FALSE(HasFailure()) << policy << " " << Name(scope);
      }
    }
  }

  TinyModel model_{{.num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 384}};
};

TEST_F(PinnedSlotsTest, AreNeverCandidatesCountInTheBudgetAndOwnTheirPositions) {
  constexpr int64_t kAfter = 20;
  ForEachPolicy([&](const std::string& policy, EvictionScope scope) {
    const Request request = Ask(policy, scope, Blocks({kAfter}));
    const auto watch = [&](int, const StepItem& item, const SequenceCache& cache, PagePool&) {
      const int64_t seen = cache.tokens_seen();
      if (seen < kAfter) return;
      ASSERT_EQ(item.pinned_block, seen == kAfter ? 0 : -1);
      ASSERT_EQ(cache.next_position(), seen + kSlots);
      int64_t total = 0;
      for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
        for (int64_t h = 0; h < cache.num_kv_heads(); ++h) {
          const auto& positions = cache.head(layer, h).positions;
          // All of T..T+7, with their own keys; the text goes on at T + 8.
          const auto first = std::lower_bound(positions.begin(), positions.end(), kAfter);
          for (int64_t i = 0; i < kSlots; ++i) ASSERT_EQ(first[i], kAfter + i);
          ASSERT_EQ(positions.back(), seen + kSlots - 1);
          total += int64_t(positions.size());
          const std::vector<float> keys = cache.ReadKeys(layer, h);
          const auto* key = keys.data() + (first - positions.begin()) * cache.head_dim();
          const auto* given = request.pinned[0].keys.data() + (layer * 3 + h) * kSlots * cache.head_dim();
          for (int64_t i = 0; i < kSlots * cache.head_dim(); ++i) ASSERT_NEAR(key[i], given[i], 0.005) << "in bf16";
        }
      }
      if (!request.eviction.evicts() || request.eviction.timing != EvictionTiming::kChunked) return;
      ASSERT_LT(total, request.eviction.Trigger() * 6);
      if (item.evict) {
        ASSERT_EQ(total, request.eviction.budget * 6) << "pinned slots included";
      }
    };
    const SequenceReport report = Run(1, request, 512, watch).kv;
    EXPECT_EQ(report.pinned_entries, kSlots * 6);
    EXPECT_EQ(report.tokens_seen, kPromptTokens + kMaxTokens - 1);
    EXPECT_EQ(report.full_entries, report.tokens_seen * 6) << "a full cache of the text holds no pinned slots";
    EXPECT_EQ(report.kept_entries + report.evicted_entries, report.full_entries);
    EXPECT_EQ(report.evicted_entries > 0, policy != "full");
  });
}

TEST_F(PinnedSlotsTest, RanksAndChunksChangeNoBit) {
  ForEachPolicy([&](const std::string& policy, EvictionScope scope) {
    const Request request = Ask(policy, scope, Blocks({20}));
    const Completion one = Run(1, request);
    ExpectSameBits(Run(2, request, 7), one);
    ExpectSameBits(Run(3, request, 1), one);
    ExpectSameBits(Run(3, request, 64), one);
  });
}

// Before the first token that follows a prompt, in the answer, a block larger than the interval (8 > 7), exactly where
// an eviction is due (31 slots after 31 tokens; with the block at 5: after 23), and two blocks.
TEST_F(PinnedSlotsTest, AnyPlaceIsExactAndFollowedByAnEvictionWhereItIsDue) {
  struct Case {
    std::vector<int64_t> after_tokens;
    int64_t first_eviction;  // tokens
  };
  for (const auto& [after_tokens, first_eviction] :
       {Case{{1}, 23}, Case{{24}, 24}, Case{{31}, 31}, Case{{60}, 31}, Case{{65}, 31}, Case{{5, 23}, 23}}) {
    for (const char* policy : {"random", "snapkv", "keydiff", "pyramidkv", "ada-snapkv", "r-kv"}) {
      const int64_t slots = after_tokens.size() > 1 ? 4 : kSlots;
      const Request request = Ask(policy, EvictionScope::kHead, Blocks(after_tokens, slots));
      const int64_t expected = after_tokens.size() > 1 ? 23 : first_eviction;
      int64_t first = 0;
      const auto watch = [&](int, const StepItem& item, const SequenceCache& cache, PagePool&) {
        if (item.evict && first == 0) first = cache.tokens_seen();
      };
      const Completion one = Run(1, request, 512, watch);
      EXPECT_EQ(first, expected) << policy;
      EXPECT_EQ(one.kv.pinned_entries, int64_t(after_tokens.size()) * slots * 6);
      ExpectSameBits(Run(2, request, 1), one);
      ExpectSameBits(Run(3, request, 7), one);
      ASSERT_FALSE(HasFailure()) << policy << " after " << after_tokens[0];
    }
  }
}

TEST_F(PinnedSlotsTest, AReplayBringsThemBackAndGoesOn) {
  ForEachPolicy([&](const std::string& policy, EvictionScope scope) {
    for (int64_t after : {20, 65}) {  // in the prompt, and in the part of the answer that is fed again
      const Request request = Ask(policy, scope, Blocks({after}));
      const Completion whole = Run(1, request);
      constexpr int64_t kDone = 11;
      Request rest = request;
      rest.original_prompt_tokens = kPromptTokens;
      rest.prompt.insert(rest.prompt.end(), whole.token_ids.begin(), whole.token_ids.begin() + kDone);
      rest.max_tokens = kMaxTokens - kDone;
      const Completion replay = Run(2, rest, 16);
      EXPECT_EQ(replay.token_ids, std::vector<int32_t>(whole.token_ids.begin() + kDone, whole.token_ids.end()));
      EXPECT_EQ(replay.logprobs, std::vector<float>(whole.logprobs.begin() + kDone, whole.logprobs.end()));
      EXPECT_EQ(replay.kv.kept_hash, whole.kv.kept_hash);
      EXPECT_EQ(replay.kv.pinned_entries, whole.kv.pinned_entries);
    }
  });
}

TEST_F(PinnedSlotsTest, EveryTokenBehindThemSeesThem) {
  const Request with = Ask("full", EvictionScope::kHead, Blocks({kPromptTokens - 1}));
  Request without = with;
  without.pinned.clear();
  EXPECT_NE(Run(1, with).logprobs, Run(1, without).logprobs);
}

// The strongest check: where the block is what real tokens had left in the cache, the rest of the text cannot tell.
TEST_F(PinnedSlotsTest, ABlockTakenFromRealTokensGivesTheBitsOfThoseTokens) {
  constexpr int64_t kAfter = 30;
  Request whole = Ask("full", EvictionScope::kHead, {});
  PinnedBlock block{.after_tokens = kAfter, .num_slots = kSlots, .keys = {}, .values = {}};
  const auto capture = [&](int, const StepItem&, const SequenceCache& cache, PagePool& pool) {
    if (cache.tokens_seen() != kPromptTokens) return;
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
      for (int64_t h = 0; h < cache.num_kv_heads(); ++h) {
        std::vector<int32_t> slots;
        for (int64_t i = 0; i < kSlots; ++i) slots.push_back(cache.head(layer, h).PhysicalSlot(kAfter + i));
        std::vector<float> keys(size_t(kSlots * cache.head_dim())), values(keys.size());
        pool.ReadSlots(slots, keys, values);
        block.keys.insert(block.keys.end(), keys.begin(), keys.end());
        block.values.insert(block.values.end(), values.begin(), values.end());
      }
    }
  };
  const Completion expected = Run(1, whole, 512, capture);
  Request pinned = whole;
  pinned.prompt.erase(pinned.prompt.begin() + kAfter, pinned.prompt.begin() + kAfter + kSlots);
  pinned.pinned = {block};
  for (int ranks : {1, 3}) {
    for (int64_t chunk : {7, 512}) {
      const Completion got = Run(ranks, pinned, chunk);
      EXPECT_EQ(got.token_ids, expected.token_ids);
      EXPECT_EQ(got.logprobs, expected.logprobs);
      EXPECT_EQ(got.kv.kept_hash, expected.kv.kept_hash) << "the same positions are held";
      EXPECT_EQ(got.kv.kept_entries + got.kv.pinned_entries, expected.kv.kept_entries);
    }
  }
}

TEST_F(PinnedSlotsTest, ABudgetThatCannotHoldThemIsRefusedWithTheNumbers) {
  EvictionSettings asked{.policy = "random", .budget = 24, .interval = 7, .sink_tokens = 3, .recent_tokens = 5};
  EXPECT_TRUE(ResolveEviction(asked, {.prompt_tokens = 10, .pinned_slots = 16}).ok());
  const Status status = ResolveEviction(asked, {.prompt_tokens = 10, .pinned_slots = 17}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("3 sink + 5 recent tokens + 17 pinned slots"));
}

}  // namespace
}  // namespace winnow
