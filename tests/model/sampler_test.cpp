#include "model/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/exact_math.h"
#include "base/philox.h"
#include "tests/model/sampler_rows.h"

namespace winnow {
namespace {

double LogSoftmax(const Logits& logits, int32_t token) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(double(logit) - largest);
  return double(logits[size_t(token)]) - largest - std::log(sum);
}

TEST(Sampler, GreedyPicksTheLargestLogit) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Logits logits = RandomLogits(seed, 261, 9);
    const auto largest = std::max_element(logits.begin(), logits.end()) - logits.begin();
    for (int num_ranks : {1, 3}) EXPECT_EQ(SampleOn(num_ranks, {{logits}})[0].token, largest);
  }
}

TEST(Sampler, GreedyTiesGoToTheLowerId) {
  Logits logits(100, 0.5f);
  for (int num_ranks : {1, 2, 3, 5}) EXPECT_EQ(SampleOn(num_ranks, {{logits}})[0].token, 0);
  logits[97] = logits[31] = logits[60] = 4;
  for (int num_ranks : {1, 2, 3, 5}) EXPECT_EQ(SampleOn(num_ranks, {{logits}})[0].token, 31);
  const Logits zeros = {-1, -0.0f, 0.0f};
  EXPECT_EQ(SampleOn(1, {{zeros}})[0].token, 1);
}

TEST(Sampler, AllLogitsNegativeIsAnOrdinaryRow) {
  const Logits logits = {-5000, -4000, -4500, -9000};
  const SampledToken token = SampleOn(2, {{logits}})[0];
  EXPECT_EQ(token.token, 1);
  EXPECT_EQ(token.logprob, 0.0f);
}

TEST(Sampler, LogprobsAreTheLogSoftmaxOfTheRawLogits) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Logits logits = RandomLogits(seed, 300, 8);
    // Temperature and filters move the choice, not the reported probability.
    for (const SamplingParams& params : {SamplingParams{}, SamplingParams{.temperature = 1.7f, .top_k = 100}}) {
      const SampledToken token = SampleOn(1, {{.logits = logits, .params = params, .position = int64_t(seed)}})[0];
      EXPECT_NEAR(token.logprob, LogSoftmax(logits, token.token), 1e-6);
    }
  }
}

TEST(Sampler, AnySplitOfTheVocabularyGivesTheSameBits) {
  std::vector<WholeRow> rows;
  for (uint64_t i = 0; i < 24; ++i) {
    Logits logits = RandomLogits(100 + i, 261, 6);
    if (i % 3 == 0) {
      for (float& logit : logits) logit = std::round(logit);  // many ties
    }
    const SamplingParams all[] = {{},
                                  {.temperature = 1},
                                  {.temperature = 0.8f, .top_k = 20},
                                  {.temperature = 1.2f, .top_p = 0.7f},
                                  {.temperature = 1, .min_p = 0.05f},
                                  {.temperature = 1.5f, .top_k = 40, .top_p = 0.9f, .min_p = 0.02f}};
    WholeRow row{.logits = logits, .params = all[i % 6], .position = int64_t(i)};
    row.params.seed = i / 6;
    rows.push_back(row);
  }
  const auto one = SampleOn(1, rows);
  for (int num_ranks : {2, 3, 5}) ExpectSameTokens(SampleOn(num_ranks, rows), one);
}

TEST(Sampler, ARowDoesNotDependOnItsNeighbours) {
  std::vector<WholeRow> rows;
  for (uint64_t i = 0; i < 8; ++i) {
    rows.push_back({.logits = RandomLogits(i, 200, 5),
                    .params = {.temperature = i % 2 ? 1.0f : 0.0f, .top_k = i % 4 ? 0 : 9, .top_p = i == 5 ? 0.5f : 1},
                    .position = 3});
  }
  const auto together = SampleOn(2, rows);
  for (size_t i = 0; i < rows.size(); ++i) ExpectSameTokens(SampleOn(1, {rows[i]}), {together[i]});
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  constexpr int64_t kDraws = 20000;
  const Logits logits = {2.0f, 1.0f, 0.0f, -0.5f, 1.5f, -2.0f, 0.3f, -1.0f};
  for (float temperature : {1.0f, 0.5f, 2.0f}) {
    const auto sampled = SampleOn(1, Positions(logits, {.temperature = temperature, .seed = 5}, kDraws));
    std::map<int32_t, int64_t> counts;
    for (const SampledToken& token : sampled) ++counts[token.token];
    double chi_square = 0, sum = 0;
    for (float logit : logits) sum += std::exp(double(logit) / temperature);
    for (size_t i = 0; i < logits.size(); ++i) {
      const double expected = kDraws * std::exp(double(logits[i]) / temperature) / sum;
      chi_square += std::pow(double(counts[int32_t(i)]) - expected, 2) / expected;
    }
    EXPECT_LT(chi_square, 24.3) << temperature;  // 7 degrees of freedom: exceeded once in 1,000
  }
}

TEST(Sampler, TheShortcutBeforeTheLogarithmsNeverChangesTheWinner) {
  // Every token's score, without the filter on probabilities; logits from hopeless to close.
  for (float scale : {0.5f, 5.0f, 60.0f}) {
    const Logits logits = RandomLogits(77, 261, scale);
    const float largest = *std::max_element(logits.begin(), logits.end());
    const SamplingParams params{.temperature = 0.9f, .seed = 11};
    const auto sampled = SampleOn(3, Positions(logits, params, 1000));
    for (int64_t position = 0; position < 1000; ++position) {
      double best = -HUGE_VAL;
      int32_t winner = -1;
      for (int32_t id = 0; id < int32_t(logits.size()); ++id) {
        const PhiloxBlock block =
            Philox(params.seed, {uint32_t(RandomPurpose::kSampling), 0, uint32_t(position), uint32_t(id / 4)});
        const float scaled = (logits[size_t(id)] - largest) / params.temperature;
        const double score = double(scaled) - ExactLog(-ExactLog(OpenUnitFloat(block[size_t(id % 4)])));
        if (score > best) {
          best = score;
          winner = id;
        }
      }
      ASSERT_EQ(sampled[size_t(position)].token, winner) << "scale " << scale << ", position " << position;
    }
  }
}

TEST(Sampler, SeedChoiceAndPositionEachChangeTheDraws) {
  const Logits logits(200, 0.0f);
  const auto draw = [&](uint64_t seed, int64_t choice, int64_t first_position) {
    auto rows = Positions(logits, {.temperature = 1, .seed = seed}, 20);
    for (WholeRow& row : rows) {
      row.choice_index = choice;
      row.position += first_position;
    }
    return Tokens(SampleOn(1, rows));
  };
  const auto first = draw(1, 0, 0);
  EXPECT_EQ(draw(1, 0, 0), first);
  for (const auto& other : {draw(2, 0, 0), draw(1ull << 40 | 1, 0, 0), draw(1, 1, 0), draw(1, 0, 1000)}) {
    int64_t equal = 0;
    for (size_t i = 0; i < first.size(); ++i) equal += first[i] == other[i];
    EXPECT_LE(equal, 3);
  }
  EXPECT_GT(std::set<int32_t>(first.begin(), first.end()).size(), 10u);
}

TEST(Sampler, ARowThatIsNotFiniteFailsAloneOnAllRanks) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  std::vector<WholeRow> rows;
  for (uint64_t i = 0; i < 6; ++i) {
    rows.push_back({.logits = RandomLogits(i, 90, 4),
                    .params = {.temperature = i % 2 ? 1.0f : 0.0f, .top_k = 30, .top_p = 0.9f},
                    .position = int64_t(40 + i)});
  }
  const auto good = SampleOn(1, rows);
  for (float bad : {kNan, kInf, -kInf}) {
    for (size_t at : {size_t(0), size_t(89)}) {
      for (size_t row : {size_t(2), size_t(3)}) {
        auto spoilt = rows;
        spoilt[row].logits[at] = bad;
        for (int num_ranks : {1, 2, 3}) {
          auto sampled = SampleOn(num_ranks, spoilt);
          EXPECT_EQ(sampled[row].status.code(), StatusCode::kNumerical) << bad << " at " << at;
          EXPECT_THAT(sampled[row].status.message(), testing::HasSubstr("position " + std::to_string(40 + row)));
          sampled[row] = good[row];
          ExpectSameTokens(sampled, good);
        }
      }
    }
  }
}

TEST(Sampler, ARowOfNanAloneFails) {
  const Logits nan(40, std::numeric_limits<float>::quiet_NaN());
  for (int num_ranks : {1, 3}) {
    EXPECT_EQ(SampleOn(num_ranks, {{nan, {.temperature = 1}}})[0].status.code(), StatusCode::kNumerical);
  }
}

TEST(Sampler, NoRowsNeedNoCollective) {
  RunThreadRanks(2, [](Communicator& communicator) {
    EXPECT_TRUE(Sample(communicator, 0, {}).empty());
    EXPECT_EQ(communicator.counters().calls, 0);
  });
}

TEST(Sampler, GreedyCostsOneAllGatherOf24BytesAndOneAllReduceOf8BytesARow) {
  const Logits logits = RandomLogits(1, 64, 3);
  RunThreadRanks(2, [&](Communicator& communicator) {
    const std::vector<SampleRow> rows(5, SampleRow{.logits = logits, .params = {}});
    const auto tokens = Sample(communicator, communicator.rank() * 64, rows);
    EXPECT_EQ(tokens.size(), 5u);
    EXPECT_EQ(communicator.counters().calls, 2);
    EXPECT_EQ(communicator.counters().payload_bytes, 5 * (24 + 8));
  });
}

TEST(CheckSamplingParams, AcceptsTheWholeRange) {
  for (const SamplingParams& params :
       {SamplingParams{}, SamplingParams{.temperature = 1e-4f}, SamplingParams{.temperature = 100},
        SamplingParams{.temperature = 1, .top_k = 1, .top_p = 1e-6f, .min_p = 0.999f}}) {
    EXPECT_TRUE(CheckSamplingParams(params).ok());
  }
}

TEST(CheckSamplingParams, RefusesWhatIsOutOfRangeAndNamesIt) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  const auto expect_refused = [](const char* name, const SamplingParams& params) {
    const Status status = CheckSamplingParams(params);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), testing::AllOf(testing::HasSubstr(name), testing::HasSubstr("found")));
  };
  for (float temperature : {-1.0f, -1e-9f, 1e-5f, 101.0f, kNan, kInf, -kInf}) {
    expect_refused("temperature", {.temperature = temperature});
  }
  expect_refused("top_k", {.temperature = 1, .top_k = -1});
  for (float top_p : {0.0f, -0.5f, 1.01f, kNan, kInf}) expect_refused("top_p", {.temperature = 1, .top_p = top_p});
  for (float min_p : {1.0f, -0.1f, 2.0f, kNan}) expect_refused("min_p", {.temperature = 1, .min_p = min_p});
}

}  // namespace
}  // namespace winnow
