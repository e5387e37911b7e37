#include "model/row_score.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/exact_math.h"
#include "dist/exact_sum.h"

namespace winnow {
namespace {

// Sums of products of a probability and a difference of logits: steps of 2^-32, so that terms up to 2^20 leave room for
// 2^11 of them; all but a few hundred of a row's terms are far below 1.
constexpr double kProductSteps = 0x1p32;
constexpr double kProductLimit = 0x1p20;

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

int64_t Product(double weight, double factor) {
  const double term = std::clamp(weight * factor, -kProductLimit, kProductLimit);
  return int64_t(std::nearbyint(term * kProductSteps));
}

Sums SumRow(const ScoreRow& row, int32_t first_id, float largest, const ScoreRow* reference, float reference_largest) {
  Sums sums;
  for (size_t i = 0; i < row.logits.size(); ++i) {
    const float z = row.logits[i] - largest, weight = ExactExp(z);
    sums.weight += int64_t(std::nearbyint(double(weight) * kProbabilitySteps));
    sums.weighted += Product(weight, z);
    if (reference != nullptr) {
      const float z_reference = reference->logits[i] - reference_largest;
      sums.reference += Product(ExactExp(z_reference), double(z_reference) - double(z));
    }
    if (first_id + int32_t(i) == row.target) {
      uint32_t bits;
      std::memcpy(&bits, &z, sizeof(bits));
      sums.target = int64_t(bits) + 1;
    }
  }
  return sums;
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

  std::vector<Sums> sums(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    const int64_t reference = rows[r].reference;
    WINNOW_CHECK(reference < int64_t(rows.size()));
    if (tops[r].not_finite || (reference >= 0 && tops[size_t(reference)].not_finite)) continue;
    const bool compared = reference >= 0;
    sums[r] = SumRow(rows[r], first_id, tops[r].logit, compared ? &rows[size_t(reference)] : nullptr,
                     compared ? tops[size_t(reference)].logit : 0.0f);
  }
  static_assert(sizeof(Sums) == 4 * sizeof(int64_t));
  communicator.AllReduce(std::span<int64_t>(&sums[0].weight, 4 * sums.size()), ReduceOp::kSum);

  std::vector<RowScore> scores(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    RowScore& score = scores[r];
    const int64_t reference = rows[r].reference;
    if (tops[r].not_finite || (reference >= 0 && tops[size_t(reference)].not_finite)) {
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
