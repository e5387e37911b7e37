#include "model/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/exact_math.h"
#include "base/philox.h"
#include "dist/exact_select.h"
#include "dist/exact_sum.h"

namespace winnow {
namespace {

// A candidate token of one rank; the higher score wins, ties go to the lower id.
struct Candidate {
  double score = -HUGE_VAL;
  int32_t id = -1;
  float logit = 0;
  int32_t not_finite = 0;
  int32_t reserved = 0;  // keeps the bytes that cross ranks free of padding
};

bool Beats(const Candidate& a, const Candidate& b) {
  if (a.id < 0 || b.id < 0) return b.id < 0 && a.id >= 0;
  return a.score != b.score ? a.score > b.score : a.id < b.id;
}

// Merges every rank's candidates, row by row. One all-gather of sizeof(Candidate) bytes a row.
std::vector<Candidate> MergeCandidates(Communicator& communicator, const std::vector<Candidate>& mine) {
  const auto bytes = communicator.AllGather(std::as_bytes(std::span(mine)));
  std::vector<Candidate> all(bytes.size() / sizeof(Candidate)), best(mine.size());
  std::memcpy(all.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < all.size(); ++i) {
    Candidate& to = best[i % mine.size()];
    const int32_t not_finite = to.not_finite | all[i].not_finite;
    if (Beats(all[i], to)) to = all[i];
    to.not_finite = not_finite;
  }
  return best;
}

Candidate LargestLogit(std::span<const float> logits, int32_t first_id) {
  Candidate best;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) best.not_finite = 1;
    const Candidate candidate{logits[i], first_id + int32_t(i), logits[i], best.not_finite, 0};
    if (Beats(candidate, best)) best = candidate;
  }
  return best;
}

int64_t MassOf(float exponential) {
  return int64_t(std::nearbyint(double(exponential) * kProbabilitySteps));
}

constexpr int kIdBits = 32;  // of a selection key's order

// One sampled row's tokens on this rank, after the temperature.
struct Shard {
  size_t row;                   // index into the rows of the call
  std::vector<float> scaled;    // (logit - largest) / temperature, at most 0
  std::vector<SelectKey> keys;  // of `scaled`, then the lower id
  std::vector<int64_t> masses;  // exp(scaled) in steps of 2^-40
  std::vector<uint8_t> alive;
};

Shard ScaleRow(size_t row, const SampleRow& request, float largest, int32_t first_id) {
  const size_t n = request.logits.size();
  Shard shard{row, std::vector<float>(n), std::vector<SelectKey>(n), std::vector<int64_t>(n),
              std::vector<uint8_t>(n, 1)};
  for (size_t i = 0; i < n; ++i) {
    shard.scaled[i] = (request.logits[i] - largest) / request.params.temperature;
    shard.keys[i] = {OrderedKey(shard.scaled[i]), ~uint32_t(first_id + int32_t(i))};
    shard.masses[i] = MassOf(ExactExp(shard.scaled[i]));
  }
  return shard;
}

void DropBelow(const SelectKey& threshold, Shard* shard) {
  for (size_t i = 0; i < shard->keys.size(); ++i) shard->alive[i] &= shard->keys[i] >= threshold;
}

// The parts of a shard that are still alive, in the form that selection takes.
struct Survivors {
  std::vector<SelectKey> keys;
  std::vector<int64_t> masses;
  explicit Survivors(const Shard& shard) {
    for (size_t i = 0; i < shard.keys.size(); ++i) {
      if (!shard.alive[i]) continue;
      keys.push_back(shard.keys[i]);
      masses.push_back(shard.masses[i]);
    }
  }
};

void ApplyTopK(Communicator& communicator, std::span<const SampleRow> rows, std::vector<Shard>& shards) {
  std::vector<SelectProblem> problems;
  std::vector<Shard*> chosen;
  for (Shard& shard : shards) {
    if (rows[shard.row].params.top_k <= 0) continue;
    chosen.push_back(&shard);
    problems.push_back({.keys = shard.keys, .target = rows[shard.row].params.top_k, .order_bits = kIdBits});
  }
  if (chosen.empty()) return;  // parameters are the same on all ranks
  const auto thresholds = ExactSelect(communicator, problems);
  for (size_t p = 0; p < chosen.size(); ++p) DropBelow(thresholds[p], chosen[p]);
}

void ApplyTopP(Communicator& communicator, std::span<const SampleRow> rows, std::vector<Shard>& shards) {
  std::vector<Survivors> survivors;
  std::vector<Shard*> chosen;
  std::vector<int64_t> totals;
  for (Shard& shard : shards) {
    if (rows[shard.row].params.top_p >= 1.0f) continue;
    chosen.push_back(&shard);
    survivors.emplace_back(shard);
    int64_t total = 0;
    for (int64_t mass : survivors.back().masses) total += mass;
    totals.push_back(total);
  }
  if (chosen.empty()) return;
  communicator.AllReduce(std::span<int64_t>(totals), ReduceOp::kSum);
  std::vector<SelectProblem> problems;
  for (size_t p = 0; p < chosen.size(); ++p) {
    const double share = double(rows[chosen[p]->row].params.top_p);
    // At least one step, so that the most probable token always stays.
    const int64_t target = std::max<int64_t>(1, int64_t(std::ceil(share * double(totals[p]))));
    problems.push_back({.keys = survivors[p].keys,
                        .weights = survivors[p].masses,
                        .is_weighted = true,
                        .target = target,
                        .order_bits = kIdBits});
  }
  const auto thresholds = ExactSelect(communicator, problems);
  for (size_t p = 0; p < chosen.size(); ++p) DropBelow(thresholds[p], chosen[p]);
}

void ApplyMinP(std::span<const SampleRow> rows, std::vector<Shard>& shards) {
  for (Shard& shard : shards) {
    const double least = double(rows[shard.row].params.min_p) * kProbabilitySteps;  // the largest has mass 1
    for (size_t i = 0; i < shard.alive.size(); ++i) shard.alive[i] &= double(shard.masses[i]) >= least;
  }
}

// Gumbel-max: argmax of scaled logit + Gumbel noise is a draw from the softmax, and needs no normaliser over ranks.
Candidate DrawLocal(const SampleRow& row, const Shard& shard, int32_t first_id) {
  Candidate best;
  double best_exponential = 0;  // exp(best score)
  PhiloxBlock block{};
  int64_t block_index = -1;
  for (size_t i = 0; i < shard.alive.size(); ++i) {
    if (!shard.alive[i]) continue;
    const int32_t id = first_id + int32_t(i);
    if (id / 4 != block_index) {
      block_index = id / 4;
      block = Philox(row.params.seed, {uint32_t(RandomPurpose::kSampling), uint32_t(row.choice_index),
                                       uint32_t(row.position), uint32_t(block_index)});
    }
    const double u = OpenUnitFloat(block[size_t(id % 4)]);
    // -log(-log u) > g needs 1 - u < exp(-g); the slack of 1 % makes this a safe filter before two logarithms.
    if (best.id >= 0 && (1.0 - u) * best_exponential > 1.01 * double(ExactExp(shard.scaled[i]))) continue;
    const Candidate candidate{double(shard.scaled[i]) - ExactLog(-ExactLog(u)), id, row.logits[i], 0, 0};
    if (!Beats(candidate, best)) continue;
    best = candidate;
    best_exponential = ExactExp(best.score);
  }
  return best;
}

}  // namespace

std::vector<SampledToken> Sample(Communicator& communicator, int32_t first_id, std::span<const SampleRow> rows) {
  if (rows.empty()) return {};
  std::vector<Candidate> candidates;
  for (const SampleRow& row : rows) candidates.push_back(LargestLogit(row.logits, first_id));
  const std::vector<Candidate> largest = MergeCandidates(communicator, candidates);

  // sum of exp(logit - largest): integers, so any split of the vocabulary gives the same log-probabilities.
  std::vector<int64_t> exp_sums(rows.size(), 0);
  for (size_t r = 0; r < rows.size(); ++r) {
    if (largest[r].not_finite) continue;
    for (float logit : rows[r].logits) exp_sums[r] += MassOf(ExactExp(logit - largest[r].logit));
  }
  communicator.AllReduce(std::span<int64_t>(exp_sums), ReduceOp::kSum);

  std::vector<Shard> shards;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (!largest[r].not_finite && rows[r].params.temperature > 0)
      shards.push_back(ScaleRow(r, rows[r], largest[r].logit, first_id));
  }
  std::vector<Candidate> chosen = largest;
  if (!shards.empty()) {
    ApplyTopK(communicator, rows, shards);
    ApplyTopP(communicator, rows, shards);
    ApplyMinP(rows, shards);
    std::vector<Candidate> drawn;
    for (const Shard& shard : shards) drawn.push_back(DrawLocal(rows[shard.row], shard, first_id));
    drawn = MergeCandidates(communicator, drawn);
    for (size_t s = 0; s < shards.size(); ++s) chosen[shards[s].row] = drawn[s];
  }

  std::vector<SampledToken> tokens(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    if (largest[r].not_finite) {
      tokens[r].status = NumericalError("the logits at position " + std::to_string(rows[r].position) +
                                        " are not finite: a sum left the fixed-point range or met a NaN");
      continue;
    }
    const double log_sum = ExactLog(double(exp_sums[r]) / kProbabilitySteps);
    tokens[r].token = chosen[r].id;
    tokens[r].logprob = float(double(chosen[r].logit) - double(largest[r].logit) - log_sum);
  }
  return tokens;
}

}  // namespace winnow
