#include "engine/page_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "base/hash.h"
#include "engine/eviction_schedule.h"
#include "engine/evictor.h"
#include "engine/resume_point.h"
#include "engine/scheduler.h"
#include "tests/e2e/requests.h"
#include "tests/engine/group_engine.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

constexpr int64_t kLayers = 2, kHeads = 3;
const KvLayout kLayout{.head_dim = 16, .dtype = DType::kBF16};

// With more than 3 ranks some heads are on two of them.
ShardPlan Plan(int num_ranks) {
  const ShardDims dims{
      .num_query_heads = 2 * kHeads, .num_kv_heads = kHeads, .head_dim = 16, .ffn_size = 384, .vocab_size = 256};
  return MakeShardPlan(dims, num_ranks).value();
}
KvShards Shards(int num_ranks) {
  return MakeKvShards(kLayers, Plan(num_ranks));
}

// A policy as it is, but for its scores: some heads want everything and the others nothing.
class OneSided : public EvictionPolicy {
 public:
  OneSided(const std::string& name, Range winners) : policy_(MakePolicy(name).value()), winners_(winners) {}

  std::string_view name() const override { return policy_->name(); }
  double FloorShare() const override { return policy_->FloorShare(); }
  bool HasLayerBudgets() const override { return policy_->HasLayerBudgets(); }
  int64_t LayerBudget(const LayerShare& share) const override { return policy_->LayerBudget(share); }
  void Score(const HeadView& head, std::span<float> scores) const override {
    const bool wins = head.global_head >= winners_.begin && head.global_head < winners_.end;
    std::fill(scores.begin(), scores.end(), wins ? 1.0f : 0.0f);
  }

 private:
  const std::unique_ptr<EvictionPolicy> policy_;
  const Range winners_;
};

Request Ask(const std::string& policy, BudgetAllocation allocation, int64_t prompt_tokens = 400) {
  Request request;
  request.prompt.assign(size_t(prompt_tokens), 7);
  request.max_tokens = 41;
  request.eviction = {
      .policy = policy, .budget = 50, .interval = 13, .sink_tokens = 2, .recent_tokens = 6, .allocation = allocation};
  request.eviction = ResolveEviction(request.eviction, {.prompt_tokens = prompt_tokens}).value();
  return request;
}

struct Played {
  std::vector<int64_t> most_pages;           // [rank]
  std::shared_ptr<const ResumePoint> saved;  // at the end
};

// What the engine would do with the request's cache on every rank, in pools of exactly the pages reserved, until
// `tokens` tokens are in.
Played Play(const Request& request, int num_ranks, Range winners, int64_t tokens) {
  const KvShards shards = Shards(num_ranks);
  const std::vector<int64_t> reserved = PagesToReserve(request, shards);
  Played played{.most_pages = std::vector<int64_t>(size_t(num_ranks)), .saved = nullptr};
  std::mutex mutex;  // guards played
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    const size_t rank = size_t(communicator.rank());
    const auto backend = MakeCpuBackend(1, "auto").value();
    const auto pool = PagePool::Make(*backend, kLayout, reserved[rank], /*with_mass=*/true).value();
    const Range own = shards.kv_heads[rank];
    KvReplicas replicas(communicator, Plan(num_ranks));
    SequenceCache cache(*pool, kLayers, own.size(), own.begin);
    if (request.resume != nullptr) {
      const Status status = cache.Restore(request.resume->cache);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    const OneSided policy(request.eviction.policy, winners);
    EvictionSchedule schedule(request);
    while (schedule.tokens() < tokens) {
      const int64_t count = std::min({schedule.TokensUntilCut(), tokens - schedule.tokens(), int64_t(7)});
      const EvictionSchedule::Due due = schedule.Advance(count);
      const Status status = cache.Reserve(count);
      ASSERT_TRUE(status.ok()) << status.message();
      cache.Append(count);
      if (due.pinned_block >= 0) {
        const int64_t num_slots = request.pinned[size_t(due.pinned_block)].num_slots;
        const std::vector<float> rows(size_t(kLayers * own.size() * num_slots * kLayout.head_dim), 1.0f);
        const Status pinned = cache.Reserve(num_slots);
        ASSERT_TRUE(pinned.ok()) << pinned.message();
        cache.AppendPinned(num_slots, rows, rows);
      }
      if (!due.evict) continue;
      const DueEviction eviction{&policy, &request, &cache, kHeads};
      EvictToBudget(communicator, {&eviction, 1}, &replicas);
    }
    const auto saved = GatherResumePoint(communicator, {.cache = cache.TakeSnapshot(false)}, replicas.is_first());
    const std::lock_guard lock(mutex);
    played.most_pages[rank] = pool->peak_used();
    if (rank == 0) played.saved = saved;
  });
  return played;
}

int64_t LastToken(const Request& request) {
  return int64_t(request.prompt.size()) + request.max_tokens - 1;
}

// Whoever wins the budget, pools of the reserved pages hold the request, and the rank that wins it fills its own but
// for what the heads' last pages may leave.
void ExpectSoundAndTight(const Request& request, const std::string& what) {
  for (int num_ranks : {1, 2, 3, 4}) {
    const KvShards shards = Shards(num_ranks);
    const std::vector<int64_t> reserved = PagesToReserve(request, shards);
    for (size_t rank = 0; rank < size_t(num_ranks); ++rank) {
      if (!Plan(num_ranks).is_first_replica(int(rank))) continue;  // its heads have won before
      const Range winners = shards.kv_heads[rank];
      const Played played = Play(request, num_ranks, winners, LastToken(request));
      for (size_t other = 0; other < size_t(num_ranks); ++other) {
        EXPECT_LE(played.most_pages[other], reserved[other]) << what << ", " << num_ranks << " ranks";
      }
      EXPECT_GE(played.most_pages[rank] + shards.heads_of_rank(rank), reserved[rank])
          << what << ": rank " << rank << " of " << num_ranks << " has reserved more than it can need";
    }
  }
}

TEST(PageBound, ARankWhoseHeadsWinAllBudgetFitsIntoExactlyThePagesReserved) {
  for (const BudgetAllocation allocation : {BudgetAllocation::kLayer, BudgetAllocation::kSequence}) {
    for (const char* policy : {"random", "ada-snapkv"}) {
      ExpectSoundAndTight(Ask(policy, allocation), policy + (" " + std::string(Name(allocation))));
    }
  }
}

TEST(PageBound, FormsThatActAfterThePromptReserveItOnceAndThenTheirBudgets) {
  ExpectSoundAndTight(Ask("ada-snapkv-prefill", BudgetAllocation::kLayer, 200), "short prompt");
  Request request = Ask("ada-snapkv-prefill", BudgetAllocation::kLayer, 60);  // little goes, much follows
  request.max_tokens = 100;
  ExpectSoundAndTight(request, "long answer");
}

TEST(PageBound, LayersWithBudgetsOfTheirOwnAreCountedExactly) {
  for (const char* policy : {"pyramidkv", "pyramidkv-prefill"}) {
    const Request request = Ask(policy, BudgetAllocation::kHead);
    for (int num_ranks : {1, 2, 3}) {
      EXPECT_EQ(Play(request, num_ranks, {0, 1}, LastToken(request)).most_pages,
                PagesToReserve(request, Shards(num_ranks)))
          << policy;
    }
  }
  ExpectSoundAndTight(Ask("pyramidkv", BudgetAllocation::kLayer), "pyramidkv, heads of a layer compete");
}

TEST(PageBound, WhatIsLeftOverAndPinnedSlotsAreIn) {
  Request request = Ask("random", BudgetAllocation::kSequence);
  request.eviction.larger_heads = 5;
  request.eviction.num_kv_heads = kHeads;
  ExpectSoundAndTight(request, "five heads with one slot more");
  request.eviction.policy = "pyramidkv";
  request.eviction.allocation = BudgetAllocation::kHead;
  for (int64_t after : {30, 90, 300})
    request.pinned.push_back({.after_tokens = after, .num_slots = 9, .keys = {}, .values = {}});
  for (const BudgetAllocation allocation : {BudgetAllocation::kHead, BudgetAllocation::kLayer}) {
    request.eviction.allocation = allocation;
    for (int num_ranks : {1, 2, 3}) {
      for (int64_t winner = 0; winner < kHeads; ++winner) {
        const Played played = Play(request, num_ranks, {winner, winner + 1}, LastToken(request));
        const std::vector<int64_t> reserved = PagesToReserve(request, Shards(num_ranks));
        for (size_t rank = 0; rank < reserved.size(); ++rank) EXPECT_LE(played.most_pages[rank], reserved[rank]);
      }
    }
  }
}

TEST(PageBound, ASavedTextGoesOnWhateverItsHeadsHold) {
  for (const char* policy : {"random", "ada-snapkv"}) {
    Request request = Ask(policy, BudgetAllocation::kLayer);
    // All to the first head, and then, on any number of ranks, all to the last.
    auto saved = Play(request, 1, {0, 1}, 200).saved;
    request.resume = saved;
    for (int num_ranks : {1, 2, 3}) Play(request, num_ranks, {2, 3}, LastToken(request));
  }
}

TEST(PageBound, EvenHeadsAreCountedAsBefore) {
  Request request = Ask("random", BudgetAllocation::kHead);
  EXPECT_EQ(PagesToReserve(request, Shards(2)), (std::vector<int64_t>{2 * 2 * 4, 2 * 1 * 4}));  // 63 slots a head
  request.eviction.larger_heads = 2;
  request.eviction.num_kv_heads = kHeads;
  request.eviction.interval = 14;
  EXPECT_EQ(PagesToReserve(request, Shards(1)), std::vector<int64_t>{6 * 5});  // 64 and the one more
  EXPECT_EQ(PoolSlotsOf({17, 8}, Shards(2)), 80);
  EXPECT_EQ(PagesOfPool(80, Shards(2)), (std::vector<int64_t>{20, 10}));
}

TEST(PageBound, AllocationOverTheSequenceLetsOneRankHaveMoreThanOverLayers) {
  const auto pages = [](BudgetAllocation allocation, int num_ranks) {
    return PagesToReserve(Ask("random", allocation, 1000), Shards(num_ranks));
  };
  // All heads of a layer: its 150 slots, 13 more of each, and three last pages.
  EXPECT_EQ(pages(BudgetAllocation::kLayer, 1), std::vector<int64_t>{2 * ((150 + 39 + 45) / 16)});
  // One head of three a rank: all of a layer's 150 slots but 2 x 8 protected ones, and 13 more, in each of two layers.
  EXPECT_EQ(pages(BudgetAllocation::kLayer, 3), std::vector<int64_t>(3, 2 * ((150 - 16 + 13 + 15) / 16)));
  // Two heads of six: 300 but 4 x 8, and 2 x 13 more.
  EXPECT_EQ(pages(BudgetAllocation::kSequence, 3), std::vector<int64_t>(3, (300 - 32 + 26 + 30) / 16));
}

// Budgets save admission room: two such requests run together in pools that could not hold the whole text of one.
TEST(PageBound, TwoRaggedRequestsRunTogetherWhereNotEvenOneWholeTextWouldFit) {
  const TinyModel model{{}};
  std::vector<Request> requests;
  for (int64_t id = 0; id < 2; ++id) {
    Request request = Greedy(id, RandomTokens(uint64_t(id + 1), 500, 250), 20);
    request.eviction = {.policy = "knorm",
                        .budget = 32,
                        .interval = 16,
                        .sink_tokens = 2,
                        .recent_tokens = 8,
                        .allocation = BudgetAllocation::kSequence};
    request.eviction = ResolveEviction(request.eviction, {.prompt_tokens = 500}).value();
    requests.push_back(request);
  }
  std::vector<Completion> first;
  for (int num_ranks : {1, 2, 3}) {
    const KvShards shards =
        MakeKvShards(model.config.num_layers, MakeShardPlan(ShardDimsOf(model.config), num_ranks).value());
    std::vector<int64_t> pages = PagesToReserve(requests[0], shards);
    AddPages(PagesToReserve(requests[1], shards), &pages);
    const int64_t pool_slots = PoolSlotsOf(pages, shards);
    EXPECT_LT(pool_slots, 519);
    std::mutex mutex;                      // guards seen
    std::map<int64_t, int64_t> last_step;  // of each request
    int64_t steps = 0, both_seen = 0;
    const GroupRun run = RunGroup(num_ranks, model.file, model.config, {.pool_slots = pool_slots, .check_ranks = true},
                                  {.max_num_seqs = 2, .max_num_batched_tokens = 64}, requests,
                                  [&](int rank, const StepItem& item, const SequenceCache& cache, PagePool&) {
                                    if (rank != 0) return;
                                    const std::lock_guard lock(mutex);
                                    ++steps;
                                    last_step[item.request_id] = cache.tokens_seen();
                                    both_seen += last_step.size() == 2 && last_step[0] < 519 && last_step[1] < 519;
                                  });
    EXPECT_GT(both_seen, 0) << num_ranks << " ranks: one waited for the other";
    EXPECT_EQ(run.pages_left, std::vector<int64_t>(size_t(num_ranks), 0));
    ASSERT_EQ(run.completions.size(), 2u);
    for (int64_t id = 0; id < 2; ++id) {
      if (num_ranks == 1) first.push_back(run.completions.at(id));
      ExpectSameBits(run.completions.at(id), first[size_t(id)]);
    }
  }
}

TEST(PageBound, ARequestWhoseHeadsCanOverfillOneRankIsRefusedWithItsNumbers) {
  Scheduler scheduler({.pool_slots = 128, .shards = Shards(3)});
  const Status status = scheduler.Submit(Ask("random", BudgetAllocation::kLayer, 1000));
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), testing::HasSubstr("needs 20 KV pages on rank 0 (320 slots over its heads), its page "
                                                   "pool holds 16 (256 slots)"));
}

}  // namespace
}  // namespace winnow
