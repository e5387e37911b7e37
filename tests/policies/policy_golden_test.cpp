// Every policy that the NumPy oracle has too, on the oracle's keys, values and queries, through real pages, attention
// and evictions: the same scores up to rounding and a constant factor, the same kept sets without exception.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <optional>

#include "dist/shard.h"
#include "engine/evictor.h"
#include "engine/future_attention.h"
#include "kv/kv_batch.h"
#include "model/rotary.h"
#include "policies/expected_attention.h"
#include "tests/compute/device_tensors.h"
#include "tests/policies/golden_case.h"

namespace winnow {
namespace {

// Scores: softmax weights are float, rounded once more to steps of 2^-30 a query; keys' norms and cosines are rounded
// to float alone.
constexpr double kRelativeTolerance = 1e-6, kAbsoluteTolerance = 1e-7;

// One policy of ours and the oracle's result that it must reproduce.
struct GoldenPolicy {
  const char* policy;
  const char* result;
  const char* form;
};
constexpr GoldenPolicy kPolicies[] = {
    {"streaming-llm", "streaming-llm", "periodic"},
    {"h2o", "h2o", "periodic"},
    {"h2o", "h2o-sinks", "periodic"},
    {"tova", "tova", "periodic"},
    {"snapkv", "snapkv", "periodic"},
    {"keydiff", "keydiff", "periodic"},
    {"knorm", "knorm", "periodic"},
    {"r-kv", "r-kv", "periodic"},
    {"golden", "golden", "periodic"},
    {"snapkv-prefill", "snapkv-prefill", "prefill"},
    {"pyramidkv-prefill", "pyramidkv", "prefill"},
    {"ada-snapkv-prefill", "ada-kv-snapkv", "prefill"},
    {"expected-attention", "expected-attention", "periodic"},
    {"expected-attention-prefill", "expected-attention", "prefill"},
    {"expected-attention-prefill", "ada-kv-expected-attention", "prefill"},
};

// Our score of a slot is this many times the oracle's: masses are counted in steps of 2^-30, and sums stand for means.
double ScoreFactor(const GoldenCase& golden, const std::string& policy) {
  if (policy == "h2o") return kMassSteps;
  if (policy == "tova") return kMassSteps * double(golden.Size("query_heads"));
  const double pooled = kMassSteps * 5 * double(golden.Size("window"));
  if (policy == "snapkv") return pooled;
  if (policy.starts_with("expected-attention")) return 1;
  if (policy.ends_with("-prefill")) return pooled * double(golden.group());
  return 1;
}

// The policy with the settings that the oracle's result has.
std::unique_ptr<EvictionPolicy> PolicyOf(const std::string& policy, const nlohmann::json& result) {
  if (!policy.starts_with("expected-attention")) return MakePolicy(policy).value();
  ExpectedAttentionSettings settings{.timing = MakePolicy(policy).value()->timing()};
  settings.epsilon = result.at("epsilon").get<double>();
  settings.window_tokens = result.value("query_window", int64_t(0));
  return MakeExpectedAttention(settings);
}

struct Setting {
  const char* golden;
  const char* backend;
  DType kv_cache_dtype;  // the inputs are exact in both
  int num_ranks;
};
std::string NameOf(const Setting& setting) {
  return std::string(setting.golden) + "_" + setting.backend + "_" + std::string(Name(setting.kv_cache_dtype)) +
         "_ranks" + std::to_string(setting.num_ranks);
}
void PrintTo(const Setting& setting, std::ostream* to) {
  *to << NameOf(setting);
}

// [eviction][layer * kv_heads + head]
struct Evicted {
  std::vector<std::vector<std::vector<float>>> scores;
  std::vector<std::vector<std::vector<int32_t>>> kept;  // positions
};

// Passes everything on and writes down the scores.
class Recorder : public EvictionPolicy {
 public:
  // kv_heads: of a layer, over all ranks.
  Recorder(std::unique_ptr<EvictionPolicy> policy, int64_t kv_heads, Evicted* evicted, std::mutex* mutex)
      : policy_(std::move(policy)), kv_heads_(kv_heads), evicted_(evicted), mutex_(mutex) {}

  std::string_view name() const override { return policy_->name(); }
  EvictionTiming timing() const override { return policy_->timing(); }
  BudgetAllocation allocation() const override { return policy_->allocation(); }
  double FloorShare() const override { return policy_->FloorShare(); }
  bool HasLayerBudgets() const override { return policy_->HasLayerBudgets(); }
  int64_t LayerBudget(const LayerShare& share) const override { return policy_->LayerBudget(share); }
  Observations observations() const override { return policy_->observations(); }
  void Score(const HeadView& head, std::span<float> scores) const override {
    policy_->Score(head, scores);
    const std::lock_guard lock(*mutex_);
    const bool is_shared = head.global_head == HeadView::kAllOfThem;
    for (int64_t h = 0; h < kv_heads_; ++h) {
      if (!is_shared && h != head.global_head) continue;
      evicted_->scores[size_t(head.eviction_index)][size_t(head.layer * kv_heads_ + h)].assign(scores.begin(),
                                                                                               scores.end());
    }
  }

 private:
  const std::unique_ptr<EvictionPolicy> policy_;
  const int64_t kv_heads_;
  Evicted* const evicted_;
  std::mutex* const mutex_;  // guards *evicted_
};

std::unique_ptr<Backend> MakeBackend(const std::string& name) {
  if (name == "reference") return MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  return MakeCpuBackend(2).value();
}

// q_unrotated [layers][query heads][tokens][head_dim], rotated in float.
std::vector<float> TurnedQueries(const GoldenCase& golden) {
  std::vector<float> queries = golden.Floats("q_unrotated");
  const int64_t dim = golden.Size("head_dim"), tokens = golden.Size("tokens");
  RotaryTable rotary(golden.Number("rope_theta"), dim);
  for (int64_t row = 0; row < int64_t(queries.size()) / dim; ++row) {
    const auto cos_sin = rotary.CosSin(row % tokens);
    float* q = queries.data() + row * dim;
    for (int64_t i = 0; i < dim / 2; ++i) {
      const float a = q[i], b = q[i + dim / 2], c = cos_sin[size_t(i)], s = cos_sin[size_t(i + dim / 2)];
      q[i] = a * c - b * s;
      q[i + dim / 2] = b * c + a * s;
    }
  }
  return queries;
}

// The golden text on one rank, which holds the KV heads `heads`: reads tokens and evicts.
class GoldenText {
 public:
  GoldenText(const GoldenCase& golden, const Setting& setting, Range heads)
      : golden_(golden),
        heads_(heads),
        backend_(MakeBackend(setting.backend)),
        pool_(PagePool::Make(*backend_, {.head_dim = golden.Size("head_dim"), .dtype = setting.kv_cache_dtype}, 256,
                             /*with_mass=*/true)
                  .value()),
        cache_(*pool_, golden.Size("layers"), heads.size(), heads.begin),
        q_(golden.Floats("q")),
        turned_q_(TurnedQueries(golden)),
        k_(golden.Floats("k")),
        v_(golden.Floats("v")) {}

  SequenceCache& cache() { return cache_; }

  std::span<const double> rotary_frequencies() const { return rotary_.frequencies(); }

  // The next tokens; the attention of those from first_observed on is observed, the queries of those from first_query
  // on are kept, or added to the sums. The latter are those that were rounded once, before they were rotated: what the
  // oracle takes statistics of.
  void Read(int64_t num_tokens, int64_t first_observed, int64_t first_query, const Observations& observations = {}) {
    const int64_t first = cache_.tokens_seen();
    ASSERT_TRUE(cache_.Reserve(num_tokens).ok());
    cache_.Append(num_tokens);
    KvBatch batch(*backend_);
    const KvBatchItem item{&cache_, num_tokens};
    ASSERT_TRUE(batch.Build({&item, 1}).ok());
    std::vector<int32_t> observe;
    for (int64_t token = first; token < first + num_tokens; ++token) observe.push_back(token >= first_observed);
    const int64_t dim = golden_.Size("head_dim"), query_heads = heads_.size() * golden_.group();
    for (int64_t layer = 0; layer < cache_.num_layers(); ++layer) {
      WriteKeysAndValues(layer, first, num_tokens);
      DeviceTensors tensors(*backend_);
      const Tensor q = tensors.Floats({num_tokens, query_heads, dim}, Queries(q_, layer, first, num_tokens));
      backend_->Attention({.q = q,
                           .out = tensors.Empty(DType::kF32, {num_tokens, query_heads, dim}),
                           .page_table = batch.page_table(layer),
                           .row_sequence = batch.row_sequence(),
                           .visible = batch.visible(layer),
                           .pages = pool_->pages(),
                           .kv = pool_->layout(),
                           .observe = tensors.Ints({num_tokens}, observe),
                           .mass = pool_->mass()});
    }
    const int64_t first_kept = std::max(first, first_query), num_kept = first + num_tokens - first_kept;
    if (num_kept <= 0) return;
    std::vector<float> kept;
    for (int64_t layer = 0; layer < cache_.num_layers(); ++layer) {
      const bool is_turned = observations.window_spans_evictions || observations.query_moments;
      const std::vector<float> queries = Queries(is_turned ? turned_q_ : q_, layer, first_kept, num_kept);
      kept.insert(kept.end(), queries.begin(), queries.end());
    }
    if (!observations.query_moments) return cache_.AppendQueries(num_kept, kept);
    std::vector<int64_t> positions(static_cast<size_t>(num_kept));
    std::iota(positions.begin(), positions.end(), first_kept);
    cache_.AddQueries(positions, rotary_.frequencies(), kept);
  }

 private:
  // Rows [num_tokens][head_dim] of one head of an input [layers][heads][tokens][head_dim].
  std::span<const float> Rows(const std::vector<float>& input, int64_t layer, int64_t heads, int64_t head,
                              int64_t first, int64_t num_tokens) const {
    const int64_t dim = golden_.Size("head_dim");
    return std::span(input).subspan(size_t(((layer * heads + head) * golden_.Size("tokens") + first) * dim),
                                    size_t(num_tokens * dim));
  }

  void WriteKeysAndValues(int64_t layer, int64_t first, int64_t num_tokens) {
    for (int64_t head = 0; head < heads_.size(); ++head) {
      const HeadCache& slots = cache_.head(layer, head);
      std::vector<int32_t> physical;
      for (int64_t i = num_tokens; i > 0; --i) physical.push_back(slots.PhysicalSlot(slots.length() - i));
      const auto rows = [&](const std::vector<float>& input) {
        return Rows(input, layer, golden_.Size("kv_heads"), heads_.begin + head, first, num_tokens);
      };
      pool_->WriteSlots(physical, rows(k_), rows(v_));
    }
  }

  // [num_tokens][query heads of this rank][head_dim], scaled.
  std::vector<float> Queries(const std::vector<float>& from, int64_t layer, int64_t first, int64_t num_tokens) const {
    const int64_t dim = golden_.Size("head_dim"), query_heads = heads_.size() * golden_.group();
    std::vector<float> queries(size_t(num_tokens * query_heads * dim));
    for (int64_t head = 0; head < query_heads; ++head) {
      const auto rows =
          Rows(from, layer, golden_.Size("query_heads"), heads_.begin * golden_.group() + head, first, num_tokens);
      for (int64_t i = 0; i < int64_t(rows.size()); ++i) {
        queries[size_t(((i / dim) * query_heads + head) * dim + i % dim)] = rows[size_t(i)] / std::sqrt(float(dim));
      }
    }
    return queries;
  }

  const GoldenCase& golden_;
  const Range heads_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<PagePool> pool_;
  SequenceCache cache_;
  const RotaryTable rotary_{golden_.Number("rope_theta"), golden_.Size("head_dim")};
  const std::vector<float> q_, turned_q_, k_, v_;
};

// What the user would have asked for.
Request RequestOf(const GoldenCase& golden, const std::string& policy, const nlohmann::json& result) {
  EvictionSettings asked{.policy = policy};
  if (result.contains("alpha")) asked.allocation = BudgetAllocation::kLayer;
  asked.budget = result.at("budget").get<int64_t>();
  asked.interval = result.value("interval", int64_t(128));
  asked.sink_tokens = result.at("sinks").get<int64_t>();
  asked.recent_tokens = policy == "h2o" ? 0 : result.at("recent").get<int64_t>();
  Request request;
  request.prompt.assign(size_t(golden.Size("prompt")), 1);
  const auto resolved = ResolveEviction(asked, {.prompt_tokens = request.prompt_tokens(), .has_future = true});
  EXPECT_TRUE(resolved.ok()) << resolved.status().message();
  request.eviction = *resolved;
  EXPECT_EQ(request.eviction.recent_tokens, result.at("recent").get<int64_t>());
  return request;
}

// What the text's blocks of queries attend to with a full cache, as RecordBlockAttention would find it with a model.
FutureAttention RecordText(const GoldenCase& golden, const Setting& setting, Range heads, const QueryBlocks& blocks) {
  GoldenText text(golden, setting, heads);
  const int64_t num_tokens = golden.Size("tokens");
  BlockAttention attention{.blocks = blocks, .tokens = std::vector<int32_t>(size_t(num_tokens)), .mean = {}};
  for (int64_t begin = 0, end = blocks.begin; begin < num_tokens; begin = end, end += blocks.interval) {
    end = std::min(end, num_tokens);
    for (int64_t chunk = 1; text.cache().tokens_seen() < end; chunk = chunk % 9 + 1) {
      text.Read(std::min(chunk, end - text.cache().tokens_seen()), blocks.begin, num_tokens);
    }
    if (begin == 0) continue;
    auto& mean = attention.mean.emplace_back();
    for (const std::vector<int64_t>& mass : text.cache().ReadMass()) {
      std::vector<float>& head = mean.emplace_back();
      for (int64_t steps : mass) {
        head.push_back(float(double(steps) / double(kMassSteps) / double(blocks.interval * golden.group())));
      }
    }
    text.cache().ClearMass();
  }
  return FutureAttention(std::move(attention));
}

// Reads and evicts as the runner does, in chunks of 1 to 9 tokens that end where an eviction is due.
void RunRank(const GoldenCase& golden, const Setting& setting, const Request& request, const EvictionPolicy& policy,
             Communicator& communicator, Evicted* evicted, std::mutex* mutex) {
  const int64_t kv_heads = golden.Size("kv_heads");
  const Range heads{kv_heads * communicator.rank() / communicator.size(),
                    kv_heads * (communicator.rank() + 1) / communicator.size()};
  GoldenText text(golden, setting, heads);
  SequenceCache& cache = text.cache();
  const EvictionSettings& eviction = request.eviction;
  const Observations observations = policy.observations();
  const int64_t window = observations.Window(eviction.recent_tokens);
  std::optional<FutureAttention> future;
  if (observations.future) future = RecordText(golden, setting, heads, BlocksBetweenEvictions(eviction));
  int64_t due = eviction.timing == EvictionTiming::kAfterPrefill ? golden.Size("prompt") : eviction.Trigger();
  for (size_t done = 0; done < evicted->kept.size(); ++done, due += eviction.interval) {
    const int64_t first_observed = observations.mass == ObservedMass::kWindow ? due - window : 0;
    for (int64_t chunk = 1; cache.tokens_seen() < due; chunk = chunk % 9 + 1) {
      const int64_t first_query = observations.queries         ? due - window
                                  : observations.query_moments ? observations.moments_begin
                                                               : golden.Size("tokens");
      text.Read(std::min(chunk, due - cache.tokens_seen()), first_observed, first_query, observations);
    }
    const DueEviction one{.policy = &policy,
                          .request = &request,
                          .cache = &cache,
                          .num_kv_heads = kv_heads,
                          .future = future ? future->MostAfter(cache) : SlotScores(),
                          .rotary_frequencies = text.rotary_frequencies(),
                          .queries_kept = std::max<int64_t>(0, window - eviction.interval)};
    EvictToBudget(communicator, {&one, 1});
    const std::lock_guard lock(*mutex);
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
      for (int64_t head = 0; head < heads.size(); ++head) {
        evicted->kept[done][size_t(layer * kv_heads + heads.begin + head)] = cache.head(layer, head).positions;
      }
    }
  }
}

class PolicyGolden : public testing::TestWithParam<Setting> {
 protected:
  void Check(const GoldenPolicy& ours) {
    SCOPED_TRACE(std::string(ours.policy) + " against " + ours.result);
    const nlohmann::json& result = golden_.Result(ours.result, ours.form);
    const std::vector<GoldenEviction> expected = Evictions(golden_, result);
    const Request request = RequestOf(golden_, ours.policy, result);
    Evicted evicted;
    std::mutex mutex;  // guards evicted
    evicted.scores.assign(expected.size(), std::vector<std::vector<float>>(expected[0].size()));
    evicted.kept.assign(expected.size(), std::vector<std::vector<int32_t>>(expected[0].size()));
    const Recorder recorder(PolicyOf(ours.policy, result), golden_.Size("kv_heads"), &evicted, &mutex);
    RunThreadRanks(GetParam().num_ranks, [&](Communicator& communicator) {
      RunRank(golden_, GetParam(), request, recorder, communicator, &evicted, &mutex);
    });
    double worst = 0;  // share of the tolerance
    const double factor = ScoreFactor(golden_, ours.policy);
    for (size_t e = 0; e < expected.size(); ++e) {
      for (size_t h = 0; h < expected[e].size(); ++h) {
        const GoldenHead& head = expected[e][h];
        ASSERT_EQ(evicted.kept[e][h], head.kept) << "eviction " << e << ", head " << h;
        ASSERT_EQ(evicted.scores[e][h].size(), head.scores.size());
        for (size_t slot = 0; slot < head.scores.size(); ++slot) {
          if (!head.scored[slot]) continue;
          const double score = double(evicted.scores[e][h][slot]) / factor, want = head.scores[slot];
          worst =
              std::max(worst, std::fabs(score - want) / (kAbsoluteTolerance + kRelativeTolerance * std::fabs(want)));
        }
      }
    }
    EXPECT_LE(worst, 1.0);
    std::printf("%s against %s: %zu evictions, %.2f of the tolerance\n", ours.policy, ours.result, expected.size(),
                worst);
  }

  const GoldenCase golden_{GetParam().golden};
};

TEST_P(PolicyGolden, KeepsWhatTheOracleKeepsAndScoresAlike) {
  for (const GoldenPolicy& policy : kPolicies) Check(policy);
}

INSTANTIATE_TEST_SUITE_P(Settings, PolicyGolden,
                         testing::Values(Setting{"policies_gqa2", "reference", DType::kF32, 1},
                                         Setting{"policies_gqa3", "reference", DType::kBF16, 2},
                                         Setting{"policies_gqa2", "cpu", DType::kBF16, 2},
                                         Setting{"policies_gqa3", "cpu", DType::kF32, 1},
                                         Setting{"policies_gqa3", "cpu", DType::kBF16, 1}),
                         [](const auto& setting) { return NameOf(setting.param); });

}  // namespace
}  // namespace winnow
