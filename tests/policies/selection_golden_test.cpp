// Our selection on the oracle's scores: kept sets of every result, also of methods that we do not have, budgets of
// PyramidKV, and scores so few that ties decide.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "engine/pooled_selection.h"
#include "policies/eviction_policy.h"
#include "tests/policies/golden_case.h"

namespace winnow {
namespace {

// Heads of one eviction, all layers.
struct Heads {
  int64_t layers = 0, kv_heads = 0;
  std::vector<std::vector<int32_t>> positions;  // [layer * kv_heads + head]
  std::vector<std::vector<float>> scores;
  Protection protection;
};
using KeptSets = std::vector<std::vector<int32_t>>;  // positions; [layer * kv_heads + head]

KeptSets PerHead(const Heads& heads, const std::vector<int64_t>& layer_budgets) {
  KeptSets kept;
  for (size_t h = 0; h < heads.positions.size(); ++h) {
    kept.emplace_back();
    for (int32_t slot :
         SelectKept(heads.positions[h], heads.scores[h], layer_budgets[h / size_t(heads.kv_heads)], heads.protection)) {
      kept.back().push_back(heads.positions[h][size_t(slot)]);
    }
  }
  return kept;
}

// Heads of a layer (or of the whole model) share `budget` slots a head; each keeps its `floor` best first.
KeptSets Pooled(const Heads& heads, int64_t budget, bool is_whole_model, int64_t floor, int num_ranks) {
  KeptSets kept(heads.positions.size());
  std::mutex mutex;  // guards kept
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    std::vector<Pool> pools(is_whole_model ? 1 : size_t(heads.layers));
    std::vector<std::vector<size_t>> own(pools.size());
    for (size_t h = 0; h < heads.positions.size(); ++h) {
      const int64_t layer = int64_t(h) / heads.kv_heads, head = int64_t(h) % heads.kv_heads;
      const size_t p = is_whole_model ? 0 : size_t(layer);
      std::vector<uint8_t> is_protected = ProtectedSlots(heads.positions[h], heads.protection);
      pools[p].num_kv_heads = heads.kv_heads;
      pools[p].candidates_kept += budget - std::count(is_protected.begin(), is_protected.end(), 1);
      if (head * num_ranks / heads.kv_heads != communicator.rank()) continue;
      own[p].push_back(h);
      pools[p].heads.push_back({layer, head, heads.positions[h], heads.scores[h], std::move(is_protected), floor});
    }
    const auto slots = SelectPooled(communicator, pools);
    const std::lock_guard lock(mutex);
    for (size_t p = 0; p < pools.size(); ++p) {
      for (size_t i = 0; i < own[p].size(); ++i) {
        for (int32_t slot : slots[p][i]) kept[own[p][i]].push_back(heads.positions[own[p][i]][size_t(slot)]);
      }
    }
  });
  return kept;
}

class SelectionGolden : public testing::TestWithParam<const char*> {
 protected:
  const GoldenCase golden_{GetParam()};

  Heads HeadsOf(const GoldenEviction& eviction, const nlohmann::json& result) const {
    Heads heads{.layers = golden_.Size("layers"),
                .kv_heads = golden_.Size("kv_heads"),
                .positions = {},
                .scores = {},
                .protection = {.sink_tokens = result.at("sinks"), .recent_tokens = result.at("recent")}};
    for (const GoldenHead& head : eviction) {
      heads.positions.push_back(head.held);
      heads.scores.push_back(head.scores);
    }
    return heads;
  }
};

TEST_P(SelectionGolden, KeepsWhatTheOracleKeepsOfItsScores) {
  int64_t checked = 0;
  for (const nlohmann::json& result : golden_.results()) {
    const std::string policy = result.at("policy"), form = result.at("form");
    if (!golden_.Has(policy + "/" + form + "/scores")) continue;
    const int64_t budget = result.at("budget");
    for (const GoldenEviction& eviction : Evictions(golden_, result)) {
      const Heads heads = HeadsOf(eviction, result);
      KeptSets expected;
      for (const GoldenHead& head : eviction) expected.push_back(head.kept);
      KeptSets kept;
      if (result.contains("alpha")) {
        const int64_t free = budget - heads.protection.sink_tokens - heads.protection.recent_tokens;
        kept = Pooled(heads, budget, /*is_whole_model=*/false, int64_t(result.at("alpha").get<double>() * double(free)),
                      2);
      } else if (form == "global") {
        kept = Pooled(heads, budget, /*is_whole_model=*/true, 0, 2);
      } else {
        kept = PerHead(heads, result.value("whole_budgets", std::vector<int64_t>(size_t(heads.layers), budget)));
      }
      EXPECT_EQ(kept, expected) << policy << " " << form;
      ++checked;
    }
  }
  EXPECT_GT(checked, 40);
}

TEST_P(SelectionGolden, PyramidBudgetsOfLayersAreTheOracles) {
  const nlohmann::json& result = golden_.Result("pyramidkv", "prefill");
  const std::vector<int64_t> expected = result.at("whole_budgets");
  for (const char* name : {"pyramidkv", "pyramidkv-prefill"}) {
    const auto policy = MakePolicy(name).value();
    for (size_t layer = 0; layer < expected.size(); ++layer) {
      EXPECT_EQ(policy->LayerBudget(
                    {.layer = int64_t(layer),
                     .num_layers = int64_t(expected.size()),
                     .budget = result.at("budget"),
                     .protected_slots = result.at("sinks").get<int64_t>() + result.at("recent").get<int64_t>(),
                     .slots = result.at("slots")}),
                expected[layer])
          << name << " layer " << layer;
    }
  }
}

// --kv-protect-prompt and recent tokens leave to chance exactly what "random with the prompt pinned" draws from.
TEST_P(SelectionGolden, TheProtectedPromptLeavesTheOraclesCandidates) {
  const nlohmann::json& result = golden_.Result("random-pinned-prompt", "prefill");
  const std::vector<int32_t> candidates = golden_.Integers("random-pinned-prompt/prefill/candidates");
  std::vector<int32_t> positions(result.at("slots").get<size_t>());
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<uint8_t> is_protected =
      ProtectedSlots(positions, {.sink_tokens = golden_.Size("prompt"), .recent_tokens = result.at("recent")});
  for (size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_EQ(candidates[i], int32_t(!is_protected[i % positions.size()])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SelectionGolden, testing::Values("policies_gqa2", "policies_gqa3"),
                         [](const auto& name) { return std::string(name.param); });

KeptSets Flat(const nlohmann::json& table) {
  KeptSets sets;
  for (const nlohmann::json& layer : table) {
    for (const nlohmann::json& head : layer) sets.push_back(head.get<std::vector<int32_t>>());
  }
  return sets;
}

TEST(SelectionTiesGolden, TiesGoAsTheOraclesDoOnAnyNumberOfRanks) {
  const auto golden = nlohmann::json::parse(ReadGolden("policies_ties.json"));
  for (const nlohmann::json& one : golden.at("cases")) {
    const int64_t budget = one.at("budget");
    Heads heads{.layers = int64_t(one.at("scores").size()),
                .kv_heads = int64_t(one.at("scores")[0].size()),
                .positions = Flat(one.at("positions")),
                .scores = {},
                .protection = {.sink_tokens = one.at("sinks"), .recent_tokens = one.at("recent")}};
    for (const auto& scores : Flat(one.at("scores"))) heads.scores.emplace_back(scores.begin(), scores.end());
    EXPECT_EQ(PerHead(heads, std::vector<int64_t>(size_t(heads.layers), budget)), Flat(one.at("per_head")));
    for (int num_ranks : {1, 2, 3}) {
      SCOPED_TRACE(std::to_string(num_ranks) + " ranks, budget " + std::to_string(budget));
      EXPECT_EQ(Pooled(heads, budget, false, 0, num_ranks), Flat(one.at("per_layer")));
      EXPECT_EQ(Pooled(heads, budget, true, 0, num_ranks), Flat(one.at("whole_model")));
      if (one.at("per_layer_floor_2").is_null()) continue;
      EXPECT_EQ(Pooled(heads, budget, false, 2, num_ranks), Flat(one.at("per_layer_floor_2")));
    }
  }
}

}  // namespace
}  // namespace winnow
