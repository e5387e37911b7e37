#include "model/row_score.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "base/exact_math.h"
#include "dist/exact_sum.h"

namespace winnow {
namespace {

// Sums of products of a probability and a difference of logits: steps of 2^-32. Terms up to 2^12 leave room for 2^18 of
// them, whatever the logits are; a term of KL beyond 4096 nats counts as 4096.
constexpr double kProductSteps = 0x1p32;
constexpr double kProductLimit = 0x1p12;

// The largest logit of a row. 16 bytes without padding: it crosses ranks as it is.
struct Top {
  float logit = -HUGE_VALF;
  int32_t id = -1;
  int32_t not_finite = 0;
  int32_t reserved = 0;
};

Top LargestOf(std::span<const float> logits, int32_t first_id) {
  Top top;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) top.not_finite = 1;
    if (top.id < 0 || logits[i] > top.logit) {
      top.logit = logits[i];
      top.id = first_id + int32_t(i);
    }
  }
  return top;
}

// Every rank's largest, merged; lower ranks hold lower ids, so that of equal logits the lower id stays.
std::vector<Top> MergeTops(Communicator& communicator, const std::vector<Top>& mine) {
  const auto bytes = communicator.AllGather(std::as_bytes(std::span(mine)));
  std::vector<Top> all(bytes.size() / sizeof(Top)), best(mine.size());
  std::memcpy(all.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < all.size(); ++i) {
    Top& to = best[i % mine.size()];
    const int32_t not_finite = to.not_finite | all[i].not_finite;
    if (to.id < 0 || all[i].logit > to.logit) to = all[i];
    to.not_finite = not_finite;
  }
  return best;
}

// One row's sums over the vocabulary, as integers. z: logit minus the row's largest.
struct Sums {
  int64_t weight = 0;     // sum exp(z), steps of 2^-40
  int64_t weighted = 0;   // sum exp(z) z, steps of 2^-32
  int64_t reference = 0;  // sum exp(z_ref) (z_ref - z), steps of 2^-32
  int64_t target = 0;     // z of the target in its float's bits, plus 1 on its owner; 0 elsewhere
};

// The nearest integer, ties to even, of |x| < 2^51: beside 1.5 * 2^52 a double has no fraction. Loops with this form
// are vectorised, those with a conversion are not.
int64_t Rounded(double x) {
  return std::bit_cast<int64_t>(x + 0x1.8p52) - std::bit_cast<int64_t>(0x1.8p52);
}

int64_t Product(double weight, double factor) {
  return Rounded(std::clamp(weight * factor, -kProductLimit, kProductLimit) * kProductSteps);
}

// z of a logit: finite, also where the difference is beyond float's range.
float Centred(float logit, float largest) {
  return std::max(logit - largest, std::numeric_limits<float>::lowest());
}

// A row by itself. weights [vocabulary rows] becomes exp(z).
Sums SumRow(const ScoreRow& row, int32_t first_id, float largest, std::span<float> weights) {
  Sums sums;
  for (size_t i = 0; i < row.logits.size(); ++i) weights[i] = ExactExp(Centred(row.logits[i], largest));
  for (size_t i = 0; i < row.logits.size(); ++i) {
    sums.weight += Rounded(double(weights[i]) * kProbabilitySteps);
    sums.weighted += Product(weights[i], Centred(row.logits[i], largest));
  }
  const int64_t target = int64_t(row.target) - first_id;
  if (target >= 0 && target < int64_t(row.logits.size())) {
    const float z = Centred(row.logits[size_t(target)], largest);
    uint32_t bits;
    std::memcpy(&bits, &z, sizeof(bits));
    sums.target = int64_t(bits) + 1;
  }
  return sums;
}

// Sums::reference of a row; weights: the reference's.
int64_t SumDifferences(std::span<const float> logits, float largest, std::span<const float> reference_logits,
                       float reference_largest, std::span<const float> weights) {
  int64_t sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double z_reference = Centred(reference_logits[i], reference_largest);
    sum += Product(weights[i], z_reference - double(Centred(logits[i], largest)));
  }
  return sum;
}

float TargetOf(int64_t target) {
  WINNOW_CHECK(target > 0);  // some rank owns the target
  const uint32_t bits = uint32_t(target - 1);
  float z;
  std::memcpy(&z, &bits, sizeof(z));
  return z;
}

}  // namespace

std::vector<RowScore> ScoreRows(Communicator& communicator, int32_t first_id, std::span<const ScoreRow> rows) {
  if (rows.empty()) return {};
  std::vector<Top> tops;
  for (const ScoreRow& row : rows) tops.push_back(LargestOf(row.logits, first_id));
  tops = MergeTops(communicator, tops);

  // Whether a row is finite, and what it is compared with.
  const auto is_usable = [&](size_t r) {
    const int64_t reference = rows[r].reference;
    return !tops[r].not_finite && (reference < 0 || !tops[size_t(reference)].not_finite);
  };
  std::vector<std::vector<size_t>> compared(rows.size());  // the rows that have this one as reference
  for (size_t r = 0; r < rows.size(); ++r) {
    WINNOW_CHECK(rows[r].reference < int64_t(rows.size()));
    if (rows[r].reference >= 0 && is_usable(r)) compared[size_t(rows[r].reference)].push_back(r);
  }
  std::vector<Sums> sums(rows.size());
  std::vector<float> weights(rows[0].logits.size());  // of one row at a time, for all that are compared with it
  for (size_t r = 0; r < rows.size(); ++r) {
    if (tops[r].not_finite) continue;
    const int64_t differences = sums[r].reference;  // the reference may have come first
    sums[r] = SumRow(rows[r], first_id, tops[r].logit, weights);
    sums[r].reference = differences;
    for (size_t other : compared[r]) {
      sums[other].reference =
          SumDifferences(rows[other].logits, tops[other].logit, rows[r].logits, tops[r].logit, weights);
    }
  }
  static_assert(sizeof(Sums) == 4 * sizeof(int64_t));
  communicator.AllReduce(std::span<int64_t>(&sums[0].weight, 4 * sums.size()), ReduceOp::kSum);

  std::vector<RowScore> scores(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    RowScore& score = scores[r];
    const int64_t reference = rows[r].reference;
    if (!is_usable(r)) {
      score.status = NumericalError("the logits before position " + std::to_string(rows[r].position) +
                                    " are not finite: a sum left the fixed-point range or met a NaN");
      continue;
    }
    const double weight = double(sums[r].weight) / kProbabilitySteps, log_weight = ExactLog(weight);
    score.top = tops[r].id;
    score.loss = log_weight - double(TargetOf(sums[r].target));
    score.entropy = log_weight - double(sums[r].weighted) / kProductSteps / weight;
    if (reference < 0) continue;
    const double reference_weight = double(sums[size_t(reference)].weight) / kProbabilitySteps;
    score.kl = double(sums[r].reference) / kProductSteps / reference_weight + log_weight - ExactLog(reference_weight);
  }
  return scores;
}

}  // namespace winnow
