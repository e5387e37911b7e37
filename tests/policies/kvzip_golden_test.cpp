// KVzip and KVzip+ against the NumPy oracle: the oracle's keys, values and replays through real pages, copies of slots,
// the attention op's peaks and evictions; the same scores up to rounding, the same kept sets without exception.
// tests/engine/context_replay_test.cpp has the pass through a model.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "engine/evictor.h"
#include "kv/kv_batch.h"
#include "tests/compute/device_tensors.h"
#include "tests/policies/golden_case.h"

namespace winnow {
namespace {

struct Setting {
  const char* golden;
  const char* backend;
  DType kv_cache_dtype;  // the inputs are exact in both
  int num_ranks;
};
void PrintTo(const Setting& setting, std::ostream* to) {
  *to << setting.golden << "_" << setting.backend << "_" << Name(setting.kv_cache_dtype) << "_ranks"
      << setting.num_ranks;
}

// The golden context on one rank, which holds the KV heads [first_head, first_head + num_heads).
class GoldenContext {
 public:
  GoldenContext(const GoldenCase& golden, const Setting& setting, int64_t first_head, int64_t num_heads)
      : golden_(golden),
        dim_(golden.Size("head_dim")),
        backend_(std::string(setting.backend) == "cpu" ? MakeCpuBackend(2).value()
                                                       : MakeReferenceBackend(ReferenceArithmetic::kQuantised)),
        pool_(PagePool::Make(*backend_, {.head_dim = dim_, .dtype = setting.kv_cache_dtype}, 256).value()),
        cache_(*pool_, golden.Size("layers"), num_heads, first_head) {
    Append("k", "v", golden.Size("tokens"), golden.Size("prompt"), &cache_);
  }

  SequenceCache& cache() { return cache_; }

  SlotScores Scores(bool plus) {
    SlotScores scores(size_t(cache_.num_layers() * cache_.num_kv_heads()),
                      std::vector<float>(size_t(cache_.tokens_seen()), 0.0f));
    for (size_t i = 0; i < golden_.replays().size(); ++i) {
      const nlohmann::json& replay = golden_.replays()[i];
      Replay("replay" + std::to_string(i), replay.at("start"), replay.at("end"), replay.at("tokens"), plus, &scores);
    }
    return scores;
  }

 private:
  // The first of `tokens` rows of one head of an input [layers][heads][tokens][dim].
  std::span<const float> Rows(const std::vector<float>& input, int64_t layer, int64_t heads, int64_t head,
                              int64_t tokens, int64_t count) const {
    return std::span(input).subspan(size_t((layer * heads + head) * tokens * dim_), size_t(count * dim_));
  }

  // Appends the first `count` tokens of an input. The values of a replay are attended to by nobody else.
  void Append(const std::string& keys, const std::string& values, int64_t tokens, int64_t count, SequenceCache* cache) {
    ASSERT_TRUE(cache->Reserve(count).ok());
    cache->Append(count);
    const std::vector<float> k = golden_.Floats(keys), v = golden_.Floats(values);
    for (int64_t layer = 0; layer < cache->num_layers(); ++layer) {
      for (int64_t head = 0; head < cache->num_kv_heads(); ++head) {
        const HeadCache& slots = cache->head(layer, head);
        std::vector<int32_t> physical;
        for (int64_t i = count; i > 0; --i) physical.push_back(slots.PhysicalSlot(slots.length() - i));
        const auto rows = [&](const std::vector<float>& input) {
          return Rows(input, layer, golden_.Size("kv_heads"), cache->first_kv_head() + head, tokens, count);
        };
        pool_->WriteSlots(physical, rows(k), rows(v));
      }
    }
  }

  void Replay(const std::string& name, int64_t start, int64_t end, int64_t tokens, bool plus, SlotScores* scores) {
    const int64_t sinks = std::min<int64_t>(4, start), group = golden_.group(), heads = cache_.num_kv_heads();
    SequenceCache scratch(*pool_, cache_.num_layers(), heads, cache_.first_kv_head());
    ASSERT_TRUE(scratch.CopySlots(cache_, std::vector<PositionRange>{{0, sinks}, {start, end}}).ok());
    Append(name + "/k", name + "/k", tokens, tokens, &scratch);
    KvBatch batch(*backend_);
    const KvBatchItem item{&scratch, tokens};
    ASSERT_TRUE(batch.Build({&item, 1}).ok());
    const std::vector<float> q = golden_.Floats(name + "/q"), v = golden_.Floats("v"), w = golden_.Floats("w_o");
    const int64_t query_heads = heads * group, all_heads = golden_.Size("query_heads");
    const int64_t first = cache_.first_kv_head() * group, slots = (sinks + end - start + tokens + 15) / 16 * 16;
    for (int64_t layer = 0; layer < cache_.num_layers(); ++layer) {
      std::vector<float> queries(size_t(tokens * query_heads * dim_));
      for (int64_t head = 0; head < query_heads; ++head) {
        const auto rows = Rows(q, layer, all_heads, first + head, tokens, tokens);
        for (int64_t i = 0; i < int64_t(rows.size()); ++i) {
          queries[size_t(((i / dim_) * query_heads + head) * dim_ + i % dim_)] =
              rows[size_t(i)] / std::sqrt(float(dim_));
        }
      }
      DeviceTensors tensors(*backend_);
      const Tensor peaks = tensors.Empty(DType::kF32, {1, query_heads, slots});
      backend_->Attention({.q = tensors.Floats({tokens, query_heads, dim_}, queries),
                           .out = tensors.Empty(DType::kF32, {tokens, query_heads, dim_}),
                           .page_table = batch.page_table(layer),
                           .row_sequence = batch.row_sequence(),
                           .visible = batch.visible(layer),
                           .pages = pool_->pages(),
                           .kv = pool_->layout(),
                           .peak_scale = tensors.Floats({tokens}, InputScale(name, layer, tokens, plus)),
                           .peaks = peaks});
      const std::vector<float> host = tensors.Get(peaks);
      for (int64_t head = 0; head < query_heads; ++head) {
        const auto values =
            Rows(v, layer, golden_.Size("kv_heads"), (first + head) / group, golden_.Size("tokens"), end);
        for (int64_t i = start; i < end; ++i) {
          const double length =
              plus ? Written(w, layer, first + head, values.subspan(size_t(i * dim_), size_t(dim_))) : 1;
          float& score = (*scores)[size_t(layer * heads + head / group)][size_t(i)];
          score = std::max(score, float(length * double(host[size_t(head * slots + sinks + i - start)])));
        }
      }
    }
  }

  std::vector<float> InputScale(const std::string& name, int64_t layer, int64_t tokens, bool plus) const {
    std::vector<float> scale(size_t(tokens), 1.0f);
    if (!plus) return scale;
    const std::vector<float> hidden = golden_.Floats(name + "/hidden");
    const int64_t size = golden_.Size("hidden");
    for (int64_t row = 0; row < tokens; ++row) {
      double squared = 0;
      for (int64_t i = 0; i < size; ++i)
        squared += std::pow(double(hidden[size_t((layer * tokens + row) * size + i)]), 2);
      scale[size_t(row)] = float(1 / std::sqrt(squared));
    }
    return scale;
  }

  // ||W_O v|| with the columns of one query head.
  double Written(const std::vector<float>& w, int64_t layer, int64_t query_head, std::span<const float> value) const {
    const int64_t hidden = golden_.Size("hidden"), columns = golden_.Size("query_heads") * dim_;
    double squared = 0;
    for (int64_t row = 0; row < hidden; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < dim_; ++i) {
        sum += double(w[size_t((layer * hidden + row) * columns + query_head * dim_ + i)]) * double(value[size_t(i)]);
      }
      squared += sum * sum;
    }
    return std::sqrt(squared);
  }

  const GoldenCase& golden_;
  const int64_t dim_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<PagePool> pool_;
  SequenceCache cache_;
};

class KvZipGolden : public testing::TestWithParam<Setting> {
 protected:
  void Check(const std::string& policy_name, const char* form, BudgetAllocation allocation) {
    SCOPED_TRACE(policy_name + ", " + form);
    const GoldenCase golden(GetParam().golden);
    const nlohmann::json& result = golden.Result(policy_name, form);
    const GoldenEviction expected = Evictions(golden, result).at(0);
    const auto policy = MakePolicy(policy_name).value();
    Request request;
    request.prompt.assign(size_t(golden.Size("prompt")), 1);
    request.eviction = ResolveEviction({.policy = policy_name,
                                        .budget = result.at("budget").get<int64_t>(),
                                        .sink_tokens = result.at("sinks").get<int64_t>(),
                                        .recent_tokens = result.at("recent").get<int64_t>(),
                                        .allocation = allocation},
                                       {.prompt_tokens = request.prompt_tokens()})
                           .value();
    const int64_t kv_heads = golden.Size("kv_heads");
    RunThreadRanks(GetParam().num_ranks, [&](Communicator& communicator) {
      const int64_t heads = kv_heads / communicator.size(), first = heads * communicator.rank();
      GoldenContext context(golden, GetParam(), first, heads);
      SequenceCache& cache = context.cache();
      const DueEviction due{.policy = policy.get(),
                            .request = &request,
                            .cache = &cache,
                            .num_kv_heads = kv_heads,
                            .replay = context.Scores(policy_name == "kvzip-plus")};
      for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
        for (int64_t head = 0; head < heads; ++head) {
          const GoldenHead& want = expected[size_t(layer * kv_heads + first + head)];
          const std::vector<float>& got = due.replay[size_t(layer * heads + head)];
          ASSERT_EQ(got.size(), want.scores.size());
          for (size_t slot = 0; slot < got.size(); ++slot) {
            if (want.scored[slot] == 0) continue;
            ASSERT_NEAR(got[slot], want.scores[slot], 1e-6 * double(want.scores[slot]) + 1e-7) << slot;
          }
        }
      }
      EvictToBudget(communicator, {&due, 1});
      for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
        for (int64_t head = 0; head < heads; ++head) {
          ASSERT_EQ(cache.head(layer, head).positions, expected[size_t(layer * kv_heads + first + head)].kept)
              << "layer " << layer << ", head " << first + head;
        }
      }
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Cases, KvZipGolden,
                         testing::Values(Setting{"policies_gqa2", "reference", DType::kBF16, 1},
                                         Setting{"policies_gqa2", "cpu", DType::kF32, 2},
                                         Setting{"policies_gqa3", "cpu", DType::kBF16, 1},
                                         Setting{"policies_gqa3", "cpu", DType::kBF16, 2},
                                         Setting{"policies_gqa3", "reference", DType::kF32, 1}),
                         testing::PrintToStringParamName());

TEST_P(KvZipGolden, KeepsWhatTheOracleKeepsOverAllHeadsAndForEach) {
  for (const char* policy : {"kvzip", "kvzip-plus"}) {
    Check(policy, "global", BudgetAllocation::kSequence);
    Check(policy, "uniform", BudgetAllocation::kHead);
  }
}

}  // namespace
}  // namespace winnow
