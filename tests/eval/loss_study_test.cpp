// Loss studies of a tiny model: against one token at a time, against double arithmetic that knows nothing of the
// engine, and over ranks, threads and chunks.
#include "eval/loss_study.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "engine/rank_engine.h"
#include "tests/support/naive_llama.h"
#include "tests/support/teacher_forcing.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

using testing::HasSubstr;

constexpr TinyModelSpec kFloats{
    .num_query_heads = 4, .num_kv_heads = 2, .ffn_size = 256, .weights = DType::kF32, .embeddings = DType::kF32};

EvalText Text(int32_t count) {
  EvalText text{.id = "text", .kind = "made up", .tokens = {}, .prompt_tokens = 0};
  for (int32_t i = 0; i < count; ++i) text.tokens.push_back((i * i * 31 + 7 * i + 3) % 256);
  return text;
}

EvictionSettings Case(const std::string& policy, int64_t budget = 24, int64_t interval = 8) {
  return ResolveEviction(
             {.policy = policy, .budget = budget, .interval = interval, .sink_tokens = 2, .recent_tokens = 4},
             {.prompt_tokens = 50, .has_future = true})
      .value();
}

struct Study {
  int num_ranks = 1;
  EngineOptions engine = {};
  uint64_t seed = 1;
};

KvShards Shards(const TinyModel& model, int num_ranks) {
  return MakeKvShards(model.config.num_layers, MakeShardPlan(ShardDimsOf(model.config), num_ranks).value());
}

// The same on all ranks, or the test fails.
Result<std::vector<TextScore>> RunStudy(const TinyModel& model, const EvalText& text,
                                        const std::vector<EvictionSettings>& cases, Study study = {}) {
  study.engine.pool_slots = LossStudySlots(text, cases, Shards(model, study.num_ranks));
  Result<std::vector<TextScore>> result = InternalError("did not run");
  std::mutex mutex;  // guards result
  RunThreadRanks(study.num_ranks, [&](Communicator& communicator) {
    const auto engine = RankEngine::Make(model.file, model.config, study.engine, communicator, nullptr).value();
    int64_t last = 0;
    auto mine = RunLossStudy(engine->runner(), text, cases, study.seed, [&](int64_t done) {
      EXPECT_GT(done, last);
      last = done;
    });
    EXPECT_TRUE(!mine.ok() || last == LossStudyTokens(text, cases));
    EXPECT_TRUE(!mine.ok() || engine->pool().num_used() == 0);
    const std::lock_guard lock(mutex);
    if (communicator.rank() == 0) result = std::move(mine);
  });
  return result;
}

// All numbers that may not depend on how the ranks were arranged, with every bit.
std::string Describe(const TextScore& score) {
  return fmt::format("{} {:a} {:a} {} {:a} {:a} {:a} {} {:a} {} {} {} {} {} {:x}", score.positions, score.loss,
                     score.full_loss, score.high_entropy_positions, score.high_entropy_loss,
                     score.high_entropy_full_loss, score.kl, score.top1_agreement, score.kept_ratio_sum, score.tokens,
                     score.cache.evictions, score.cache.kept_entries, score.cache.evicted_entries,
                     score.cache.full_entries, score.cache.kept_hash);
}
std::vector<std::string> Describe(const Result<std::vector<TextScore>>& scores) {
  std::vector<std::string> lines;
  for (const TextScore& score : scores.value()) lines.push_back(Describe(score));
  return lines;
}

std::vector<EvictionSettings> AllCases() {
  std::vector<EvictionSettings> cases;
  for (const std::string& name : PolicyNames()) {
    const auto policy = MakePolicy(name).value();
    if (policy->evicts() && policy->timing() == EvictionTiming::kChunked) cases.push_back(Case(name));
  }
  return cases;
}

TEST(LossStudy, TheFullCacheIsTeacherForcingOneTokenAtATime) {
  const TinyModel model{{}};
  const EvalText text = Text(100);
  const auto communicator = MakeLocalCommunicator();
  const auto engine =
      RankEngine::Make(model.file, model.config, {.pool_slots = int64_t(text.tokens.size())}, *communicator, nullptr)
          .value();
  double loss = 0;
  const Status status =
      RunTeacherForcing(*engine, {&text.tokens, 1}, 1, [&](size_t, int64_t position, std::span<const float> logits) {
        if (position + 1 == int64_t(text.tokens.size())) return;
        const ScoreRow row{.logits = logits, .target = text.tokens[size_t(position) + 1]};
        const double one = ScoreRows(*communicator, 0, {&row, 1})[0].loss;
        if (position >= 24 + 8) loss += one;
      });
  ASSERT_TRUE(status.ok()) << status.message();
  const TextScore score = RunStudy(model, text, {Case("random")}).value()[0];
  EXPECT_EQ(score.full_loss, loss);
  EXPECT_EQ(score.positions, 100 - 1 - 32);
}

// Positions, evictions, the roles in KL and what full is: all of it once more from double arithmetic.
TEST(LossStudy, LossesAndDivergenceAreThoseOfDoubleArithmetic) {
  const TinyModel model{kFloats};
  const EvalText text = Text(90);
  const NaiveLlama naive(model.file, model.config);
  const auto full = naive.Logits(text.tokens, {});
  const auto evicted = naive.Logits(text.tokens, {.budget = 24, .interval = 8, .sink_tokens = 2});
  const auto log_softmax = [](const std::vector<double>& logits) {
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (double logit : logits) sum += std::exp(logit - largest);
    std::vector<double> log_p;
    for (double logit : logits) log_p.push_back(logit - largest - std::log(sum));
    return log_p;
  };
  double loss = 0, full_loss = 0, kl = 0;
  std::vector<std::array<double, 3>> by_entropy;  // entropy, loss, full loss
  int64_t agreement = 0;
  for (size_t i = 24 + 8; i + 1 < text.tokens.size(); ++i) {
    const std::vector<double> p = log_softmax(full[i]), q = log_softmax(evicted[i]);
    const size_t next = size_t(text.tokens[i + 1]);
    loss -= q[next];
    full_loss -= p[next];
    double entropy = 0;
    for (size_t t = 0; t < p.size(); ++t) {
      kl += std::exp(p[t]) * (p[t] - q[t]);
      entropy -= std::exp(p[t]) * p[t];
    }
    by_entropy.push_back({entropy, -q[next], -p[next]});
    agreement += std::max_element(p.begin(), p.end()) - p.begin() == std::max_element(q.begin(), q.end()) - q.begin();
  }
  std::sort(by_entropy.rbegin(), by_entropy.rend());
  double high_loss = 0, high_full_loss = 0;
  for (size_t i = 0; i < by_entropy.size() / 5; ++i) high_loss += by_entropy[i][1], high_full_loss += by_entropy[i][2];

  const Study floats{.engine = {.backend = "reference-float", .kv_cache_dtype = DType::kF32}};
  const TextScore score = RunStudy(model, text, {Case("streaming-llm")}, floats).value()[0];
  EXPECT_EQ(score.positions, 57);
  EXPECT_NEAR(score.loss, loss, 1e-4);
  EXPECT_NEAR(score.full_loss, full_loss, 1e-4);
  EXPECT_NEAR(score.kl, kl, 1e-4);
  EXPECT_GT(std::fabs(loss - full_loss), 1e-2);  // the texts tell the two apart
  EXPECT_GT(kl, 1e-2);
  EXPECT_EQ(score.top1_agreement, agreement);
  EXPECT_EQ(score.high_entropy_positions, 11);
  EXPECT_NEAR(score.high_entropy_loss, high_loss, 1e-4);
  EXPECT_NEAR(score.high_entropy_full_loss, high_full_loss, 1e-4);
  EXPECT_NEAR(score.low_entropy_loss(), loss - high_loss, 1e-4);
}

TEST(LossStudy, CountsWhatIsHeldAndEvicted) {
  const TinyModel model{{}};
  const TextScore score = RunStudy(model, Text(61), {Case("h2o")}).value()[0];
  double kept = 0;  // sum over tokens 1 .. 60 of slots held / tokens seen
  for (int64_t seen = 1, slots = 1; seen <= 60; ++seen, ++slots) {
    kept += double(slots) / double(seen);
    if (slots == 32) slots = 24;
  }
  EXPECT_NEAR(score.kept_ratio_sum, kept, 1e-12);
  EXPECT_EQ(score.tokens, 60);
  EXPECT_EQ(score.positions, 60 - 32);
  EXPECT_EQ(score.cache.evictions, 4);  // at 32, 40, 48 and 56
  EXPECT_EQ(score.cache.evicted_entries, 4 * 8 * 2 * 3);
  EXPECT_EQ(score.cache.full_entries, 60 * 2 * 3);
}

// A budget that a text never reaches leaves nothing to compare; one that it reaches at its last token but one leaves
// that position, and before the eviction nothing differs from the full cache.
TEST(LossStudy, APolicyThatNeverActsIsTheFullCache) {
  const TinyModel model{{}};
  for (const char* policy : {"random", "h2o", "snapkv", "keydiff", "ada-snapkv", "pyramidkv", "golden"}) {
    const TextScore never = RunStudy(model, Text(50), {Case(policy, 100)}).value()[0];
    EXPECT_EQ(never.positions, 0) << policy;
    EXPECT_EQ(never.kl, 0.0) << policy;
    EXPECT_EQ(never.cache.evictions, 0) << policy;
    EXPECT_EQ(never.cache.evicted_entries, 0) << policy;
    EXPECT_EQ(never.kept_ratio_sum, 49.0) << policy;
    // Evicts at 48, so that the prediction of the last token alone sees it.
    EXPECT_EQ(RunStudy(model, Text(50), {Case(policy, 40)}).value()[0].positions, 1) << policy;
    // An interval of 1 with a budget of one token less than the text: the eviction comes after the last row.
    const TextScore late = RunStudy(model, Text(50), {Case(policy, 48, 1)}).value()[0];
    EXPECT_EQ(late.positions, 0) << policy;
    EXPECT_EQ(late.cache.evictions, 1) << policy;
  }
}

TEST(LossStudy, NumbersAreTheSameForAnyRanksAndThreads) {
  const TinyModel model{{}};
  const EvalText text = Text(100);
  const std::vector<EvictionSettings> cases = AllCases();
  const std::vector<std::string> alone = Describe(RunStudy(model, text, cases));
  for (int num_ranks : {1, 2, 3, 5}) {
    for (int threads : {1, 3}) {
      const Study study{.num_ranks = num_ranks, .engine = {.num_threads = threads, .check_ranks = true}};
      EXPECT_EQ(Describe(RunStudy(model, text, cases, study)), alone)
          << num_ranks << " ranks, " << threads << " threads";
    }
  }
}

// A case alone is read in steps of 32 and 8 tokens, beside 10 others in smaller ones, beside other schedules in the
// smallest: where chunks end and who reads along must not matter.
TEST(LossStudy, NumbersAreTheSameInWhateverChunksAndCompany) {
  const TinyModel model{{}};
  const EvalText text = Text(150);
  std::vector<EvictionSettings> cases = AllCases();
  const size_t num_cases = cases.size();
  for (int64_t budget : {17, 31, 40}) cases.push_back(Case("random", budget, 5));
  for (int i = 0; i < 20; ++i) cases.push_back(Case("streaming-llm"));
  const std::vector<std::string> together = Describe(RunStudy(model, text, cases));
  for (size_t i = 0; i < num_cases; ++i) {
    EXPECT_EQ(Describe(RunStudy(model, text, {cases[i]}))[0], together[i]) << cases[i].policy;
  }
}

// The recording pass is what the oracle costs, once for all cases whose evictions fall alike.
TEST(LossStudy, GoldenReadsTheTextOnceMore) {
  const EvalText text = Text(80);
  EXPECT_EQ(LossStudyTokens(text, {Case("h2o")}), 79);
  EXPECT_EQ(LossStudyTokens(text, {Case("golden"), Case("h2o"), Case("golden")}), 2 * 79);
  EXPECT_EQ(LossStudyTokens(text, {Case("golden"), Case("golden", 30)}), 3 * 79);
  // Side by side with another recording, or alone: its own is found.
  const TinyModel model{{}};
  const auto both = Describe(RunStudy(model, text, {Case("golden"), Case("golden", 30)}));
  EXPECT_EQ(Describe(RunStudy(model, text, {Case("golden")}))[0], both[0]);
  EXPECT_EQ(Describe(RunStudy(model, text, {Case("golden", 30)}))[0], both[1]);
  EXPECT_NE(both[0], both[1]);
}

// They evict once, when the prompt is in; what comes after it counts, beside the full cache's loss there.
TEST(LossStudy, PoliciesOfThePromptCountFromItsEndOn) {
  const TinyModel model{{}};
  EvalText text = Text(100);
  text.prompt_tokens = 50;
  const std::vector<std::string> names = {"snapkv-prefill", "pyramidkv-prefill", "ada-snapkv-prefill"};
  std::vector<EvictionSettings> cases = {Case("h2o", 42)};  // its first eviction is after 50 tokens, too
  for (const std::string& name : names) cases.push_back(Case(name));
  const std::vector<TextScore> scores = RunStudy(model, text, cases).value();
  for (size_t i = 1; i < scores.size(); ++i) {
    const TextScore& score = scores[i];
    EXPECT_EQ(score.positions, 99 - 50) << names[i - 1];
    EXPECT_EQ(score.full_loss, scores[0].full_loss) << "the same positions";
    EXPECT_GT(score.kl, 0);
    EXPECT_EQ(score.cache.evictions, 1);
    EXPECT_EQ(score.cache.evicted_entries, (50 - 24) * 2 * 3);
    EXPECT_EQ(Describe(RunStudy(model, text, {cases[i]}, {.num_ranks = 2}))[0], Describe(score));
  }
  text.prompt_tokens = 20;  // not longer than the budget
  const TextScore never = RunStudy(model, text, {Case("snapkv-prefill")}).value()[0];
  EXPECT_EQ(never.cache.evictions, 0);
  EXPECT_EQ(never.kl, 0.0);
}

TEST(LossStudy, RandomRepeatsWithItsSeedAndNoOther) {
  const TinyModel model{{}};
  const EvalText text = Text(80);
  const auto with_seed = [&](uint64_t seed) {
    return Describe(RunStudy(model, text, {Case("random"), Case("h2o")}, {.seed = seed}));
  };
  const auto one = with_seed(1), again = with_seed(1), other = with_seed(2);
  EXPECT_EQ(one, again);
  EXPECT_NE(one[0], other[0]);
  EXPECT_EQ(one[1], other[1]);
}

TEST(LossStudy, AProtectedPromptStays) {
  const TinyModel model{{}};
  EvalText text = Text(100);
  text.prompt_tokens = 20;
  EvictionSettings asked = Case("random", 32);
  asked.protect_prompt = true;
  const EvictionSettings resolved = ResolveEviction(asked, {.prompt_tokens = text.prompt_tokens}).value();
  const EngineOptions options{.pool_slots = LossStudySlots(text, {resolved}, Shards(model, 1))};
  const auto communicator = MakeLocalCommunicator();
  const auto engine = RankEngine::Make(model.file, model.config, options, *communicator, nullptr).value();
  int64_t evictions = 0;
  engine->runner().set_cache_observer([&](const StepItem& item, const SequenceCache& cache) {
    if (item.request_id == 0 || !item.evict) return;
    ++evictions;
    for (int32_t p = 0; p < 20; ++p) ASSERT_EQ(cache.head(1, 2).positions[size_t(p)], p);
  });
  ASSERT_TRUE(RunLossStudy(engine->runner(), text, {resolved}, 1, nullptr).ok());
  EXPECT_EQ(evictions, 8);
}

TEST(LossStudy, LogitsThatAreNotFiniteAreAnErrorWithPolicyAndPosition) {
  TinyModelSpec spec = kFloats;
  spec.key_gain = 1e38f;  // scores of infinity minus infinity
  const TinyModel model{spec};
  for (int num_ranks : {1, 2}) {
    const auto result = RunStudy(model, Text(60), {Case("h2o")}, {.num_ranks = num_ranks});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), StatusCode::kNumerical);
    EXPECT_THAT(result.status().message(), HasSubstr("full: the logits before position"));
  }
}

}  // namespace
}  // namespace winnow
