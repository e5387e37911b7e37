// Rows of whole vocabularies, sampled on thread ranks that hold a part of it each. For the sampler's tests; one thread.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "dist/communicator.h"
#include "dist/shard.h"
#include "model/sampler.h"

namespace winnow {

using Logits = std::vector<float>;

inline Logits RandomLogits(uint64_t seed, int64_t count, float scale) {
  Logits logits;
  for (int64_t i = 0; i < count; ++i) {
    const PhiloxBlock block = Philox(seed, {uint32_t(RandomPurpose::kTestWeights), uint32_t(i), 0, 0});
    logits.push_back((2 * OpenUnitFloat(block[0]) - 1) * scale);
  }
  return logits;
}

// A row whose logits cover the whole vocabulary.
struct WholeRow {
  Logits logits;
  SamplingParams params = {};
  int64_t position = 0;
  int64_t choice_index = 0;
};

inline void ExpectSameTokens(const std::vector<SampledToken>& got, const std::vector<SampledToken>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t r = 0; r < got.size(); ++r) {
    EXPECT_EQ(got[r].token, want[r].token) << "row " << r;
    EXPECT_EQ(std::bit_cast<uint32_t>(got[r].logprob), std::bit_cast<uint32_t>(want[r].logprob)) << "row " << r;
    EXPECT_EQ(got[r].status.code(), want[r].status.code()) << "row " << r;
  }
}

// The vocabulary cut over ranks into consecutive parts of different size; all ranks must agree.
inline std::vector<SampledToken> SampleOn(int num_ranks, const std::vector<WholeRow>& rows) {
  const int64_t vocab = int64_t(rows.front().logits.size());
  std::vector<std::vector<SampledToken>> results(static_cast<size_t>(num_ranks));
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const auto cut = [&](int r) { return vocab * r * (r + 1) / (num_ranks * (num_ranks + 1)); };
    const Range part{cut(rank), cut(rank + 1)};
    std::vector<SampleRow> mine;
    for (const WholeRow& row : rows) {
      mine.push_back({std::span(row.logits).subspan(size_t(part.begin), size_t(part.size())), row.params,
                      row.choice_index, row.position});
    }
    results[size_t(rank)] = Sample(communicator, int32_t(part.begin), mine);
  });
  for (const auto& result : results) ExpectSameTokens(result, results.front());
  return results.front();
}

// Rows of one distribution at positions 0 .. count - 1.
inline std::vector<WholeRow> Positions(const Logits& logits, const SamplingParams& params, int64_t count) {
  std::vector<WholeRow> rows;
  for (int64_t position = 0; position < count; ++position) {
    rows.push_back({.logits = logits, .params = params, .position = position});
  }
  return rows;
}

inline std::vector<int32_t> Tokens(const std::vector<SampledToken>& sampled) {
  std::vector<int32_t> tokens;
  for (const SampledToken& token : sampled) tokens.push_back(token.token);
  return tokens;
}

}  // namespace winnow
