#include "model/row_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/model/sampler_rows.h"

namespace winnow {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLargest = std::numeric_limits<float>::max();
constexpr int64_t kAlone = ScoreRow::kNoReference;

// A row whose logits cover the whole vocabulary.
struct KnownRow {
  Logits logits;
  int32_t target = 0;
  int64_t reference = kAlone;
};

void ExpectSameBits(const std::vector<RowScore>& got, const std::vector<RowScore>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  const auto bits = [](double value) { return std::bit_cast<uint64_t>(value); };
  for (size_t r = 0; r < got.size(); ++r) {
    EXPECT_EQ(bits(got[r].loss), bits(want[r].loss)) << what << ", row " << r;
    EXPECT_EQ(bits(got[r].entropy), bits(want[r].entropy)) << what << ", row " << r;
    EXPECT_EQ(bits(got[r].kl), bits(want[r].kl)) << what << ", row " << r;
    EXPECT_EQ(got[r].top, want[r].top) << what << ", row " << r;
    EXPECT_EQ(got[r].status.message(), want[r].status.message()) << what << ", row " << r;
  }
}

// Row r predicts position 100 + r. The vocabulary is cut into consecutive parts of different size; all ranks must
// agree.
std::vector<RowScore> ScoreOn(int num_ranks, const std::vector<KnownRow>& rows) {
  const int64_t vocab = int64_t(rows.front().logits.size());
  std::vector<std::vector<RowScore>> results(static_cast<size_t>(num_ranks));
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    const auto cut = [&](int r) { return vocab * r * (r + 1) / (num_ranks * (num_ranks + 1)); };
    const Range part{cut(communicator.rank()), cut(communicator.rank() + 1)};
    std::vector<ScoreRow> mine;
    for (const KnownRow& row : rows) {
      mine.push_back({.logits = std::span(row.logits).subspan(size_t(part.begin), size_t(part.size())),
                      .target = row.target,
                      .position = 100 + int64_t(mine.size()),
                      .reference = row.reference});
    }
    results[size_t(communicator.rank())] = ScoreRows(communicator, int32_t(part.begin), mine);
  });
  for (const auto& result : results) ExpectSameBits(result, results.front(), "another rank");
  return results.front();
}

std::vector<double> LogSoftmax(const Logits& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(double(logit) - largest);
  std::vector<double> log_p;
  for (float logit : logits) log_p.push_back(double(logit) - largest - std::log(sum));
  return log_p;
}

// Formulas as they stand in the header, in double with the C library's exp and log.
RowScore Naive(const std::vector<KnownRow>& rows, size_t r) {
  const std::vector<double> log_p = LogSoftmax(rows[r].logits);
  RowScore score;
  score.loss = -log_p[size_t(rows[r].target)];
  for (double value : log_p) score.entropy -= std::exp(value) * value;
  score.top = int32_t(std::max_element(rows[r].logits.begin(), rows[r].logits.end()) - rows[r].logits.begin());
  if (rows[r].reference < 0) return score;
  const std::vector<double> log_reference = LogSoftmax(rows[size_t(rows[r].reference)].logits);
  for (size_t i = 0; i < log_p.size(); ++i) score.kl += std::exp(log_reference[i]) * (log_reference[i] - log_p[i]);
  return score;
}

// Full rows and rows near them, of peaked and of flat distributions; one is its own reference, one comes before it.
std::vector<KnownRow> MixedRows(int64_t vocab) {
  std::vector<KnownRow> rows;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const float scale = std::array{0.1f, 3.0f, 12.0f, 40.0f, 90.0f, 400.0f}[seed];
    const Logits full = RandomLogits(seed, vocab, scale), noise = RandomLogits(100 + seed, vocab, scale / 8);
    Logits near = full;
    for (size_t i = 0; i < near.size(); ++i) near[i] += noise[i];
    const int64_t at = int64_t(rows.size());
    rows.push_back({near, int32_t(seed), at + 1});
    rows.push_back({full, int32_t(vocab - 1 - int64_t(seed))});
    rows.push_back({RandomLogits(200 + seed, vocab, scale), int32_t(seed * 3), at + 1});
    rows.push_back({full, 7, at + 3});
  }
  return rows;
}

// Weights are floats of relative error 2e-7, times the logits' distances of up to 800.
TEST(RowScore, AgreesWithNaiveFormulasInDouble) {
  for (int64_t vocab : {2 * 97, 1000}) {
    const std::vector<KnownRow> rows = MixedRows(vocab);
    const std::vector<RowScore> scores = ScoreOn(1, rows);
    for (size_t r = 0; r < rows.size(); ++r) {
      const RowScore naive = Naive(rows, r);
      ASSERT_TRUE(scores[r].status.ok());
      EXPECT_EQ(scores[r].top, naive.top) << r;
      EXPECT_NEAR(scores[r].loss, naive.loss, 1e-6 + 1e-7 * naive.loss) << r;
      EXPECT_NEAR(scores[r].entropy, naive.entropy, 2e-6) << r;
      EXPECT_NEAR(scores[r].kl, naive.kl, 1e-6 + 1e-6 * naive.kl) << r;
    }
  }
}

// KL(reference || row), not the other way round: the reference is certain, the row undecided between two tokens.
TEST(RowScore, TheDivergenceIsTheReferencesFromTheRow) {
  const Logits certain = {50, 0, 0, 0}, undecided = {50, 50, 0, 0};
  const auto scores = ScoreOn(1, {{certain, 0}, {undecided, 1, 0}, {undecided, 0}, {certain, 0, 2}});
  EXPECT_NEAR(scores[1].kl, std::log(2.0), 1e-6);
  EXPECT_NEAR(scores[1].loss, std::log(2.0), 1e-6);
  EXPECT_NEAR(scores[1].entropy, std::log(2.0), 1e-6);
  EXPECT_NEAR(scores[3].kl, 25 - std::log(2.0), 1e-5);
  EXPECT_EQ(scores[0].kl, 0.0);
}

TEST(RowScore, ARowHasNoDistanceFromItself) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Logits logits = RandomLogits(seed, 500, float(1 << seed));
    const auto scores = ScoreOn(2, {{logits, 3, 0}, {logits, 3, 0}});
    EXPECT_EQ(scores[0].kl, 0.0);
    EXPECT_EQ(scores[1].kl, 0.0);
  }
}

TEST(RowScore, HasTheSameBitsOnAnyNumberOfRanksAndBesideAnyRows) {
  const std::vector<KnownRow> rows = MixedRows(503);
  const std::vector<RowScore> alone = ScoreOn(1, rows);
  for (int num_ranks : {2, 3, 5}) ExpectSameBits(ScoreOn(num_ranks, rows), alone, std::to_string(num_ranks) + " ranks");
  for (size_t r = 0; r < rows.size(); ++r) {
    const KnownRow& row = rows[r];
    if (row.reference == kAlone) {
      ExpectSameBits(ScoreOn(2, {row}), {alone[r]}, "a row alone");
    } else {
      const KnownRow& reference = rows[size_t(row.reference)];
      const auto two = ScoreOn(2, {{row.logits, row.target, 1}, {reference.logits, 0}});
      ExpectSameBits({two[0]}, {alone[r]}, "a row and its reference");
    }
  }
}

// Sampler and evaluation name the same token: ties go to the lower id, whoever holds it.
TEST(RowScore, OfEqualLogitsTheLowerIdIsTheTop) {
  Logits logits(100, 0.5f);
  for (int num_ranks : {1, 2, 3, 5}) EXPECT_EQ(ScoreOn(num_ranks, {{logits}})[0].top, 0);
  logits[97] = logits[31] = logits[60] = 4;
  for (int num_ranks : {1, 2, 3, 5}) EXPECT_EQ(ScoreOn(num_ranks, {{logits}})[0].top, 31);
  for (int num_ranks : {1, 3}) EXPECT_NEAR(ScoreOn(num_ranks, {{Logits(64, -7)}})[0].loss, std::log(64.0), 1e-6);
}

TEST(RowScore, ARowThatIsNotFiniteNamesItsPositionAndSparesTheOthers) {
  const Logits good = RandomLogits(1, 300, 5), near = RandomLogits(2, 300, 5);
  const std::vector<RowScore> want = ScoreOn(1, {{good, 1}, {near, 2, 0}});
  for (float value : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    for (size_t at : {0u, 150u, 299u}) {  // on the first, a middle and the last rank
      Logits bad = good;
      bad[at] = value;
      const std::vector<KnownRow> rows = {{good, 1}, {bad, 2, 0}, {near, 2, 0}, {bad, 2}, {near, 2, 3}};
      for (int num_ranks : {1, 3}) {
        const std::vector<RowScore> scores = ScoreOn(num_ranks, rows);
        ExpectSameBits({scores[0], scores[2]}, want, "good rows");
        for (size_t r : {1u, 3u, 4u}) {  // the last for its reference's sake
          EXPECT_EQ(scores[r].status.code(), StatusCode::kNumerical);
          EXPECT_THAT(scores[r].status.message(), testing::HasSubstr("position " + std::to_string(100 + r)));
        }
      }
    }
  }
}

// No term and no sum leaves its integer, whatever floats come: a difference of logits may even be beyond float's range.
TEST(RowScore, ExtremeLogitsGiveFiniteNumbers) {
  const Logits zeros(300, 0.0f);
  Logits cliff(300, -kLargest), spike(300, 0.0f), tiny(300, 1e-38f);
  cliff[5] = kLargest;
  spike[5] = 1e30f;
  const std::vector<KnownRow> rows = {{zeros, 5},    {cliff, 5, 0}, {cliff, 6, 0}, {spike, 5, 0},
                                      {spike, 6, 0}, {tiny, 0, 0},  {zeros, 6, 1}, {cliff, 5, 1}};
  const std::vector<RowScore> scores = ScoreOn(1, rows);
  for (int num_ranks : {2, 3}) ExpectSameBits(ScoreOn(num_ranks, rows), scores, "ranks");
  for (size_t r = 0; r < rows.size(); ++r) {
    EXPECT_TRUE(scores[r].status.ok()) << r;
    EXPECT_TRUE(std::isfinite(scores[r].loss) && std::isfinite(scores[r].entropy)) << r;
    EXPECT_TRUE(std::isfinite(scores[r].kl) && scores[r].kl >= 0) << r << ": " << scores[r].kl;
  }
  EXPECT_EQ(scores[1].loss, 0.0);
  EXPECT_EQ(scores[1].entropy, 0.0);
  EXPECT_GT(scores[2].loss, 1e38);
  EXPECT_EQ(scores[5].kl, 0.0);
  EXPECT_NEAR(scores[1].kl, 4096 * 299 / 300.0 - std::log(300.0), 1.0);  // each term counts 4096 at most
  EXPECT_NEAR(scores[6].kl, std::log(300.0), 1e-6);
  EXPECT_EQ(scores[7].kl, 0.0);
}

TEST(RowScore, NoRowsAreNoWork) {
  const auto communicator = MakeLocalCommunicator();
  EXPECT_TRUE(ScoreRows(*communicator, 0, {}).empty());
}

TEST(RowScoreDeathTest, ATokenOutsideTheVocabularyEndsTheProgram) {
  const auto communicator = MakeLocalCommunicator();
  const Logits logits(10, 0.0f);
  const ScoreRow outside{.logits = logits, .target = 10};
  EXPECT_DEATH(ScoreRows(*communicator, 0, {&outside, 1}), "check failed");
  const ScoreRow beyond{.logits = logits, .reference = 1};
  EXPECT_DEATH(ScoreRows(*communicator, 0, {&beyond, 1}), "check failed");
}

}  // namespace
}  // namespace winnow
