// What the fuzz targets share: the input as text, checks of what a reader says, and reads of all that it gives out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/status.h"
#include "dist/shard.h"
#include "model/model_config.h"
#include "model/tokenizer.h"

namespace winnow {

inline std::string_view TextOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A refusal says why, in one line, and is the file's fault.
inline void CheckRefusal(const Status& status) {
  WINNOW_CHECK(status.code() == StatusCode::kBadFile || status.code() == StatusCode::kInvalidArgument);
  WINNOW_CHECK(!status.message().empty() && status.message().size() < 4096);
}

// Reads every byte, so that a sanitizer sees a wrong pointer or length. The sum keeps the loop.
inline uint8_t SumOf(std::span<const uint8_t> bytes) {
  uint8_t sum = 0;
  for (const uint8_t byte : bytes) sum = uint8_t(sum + byte);
  return sum;
}
inline void Touch(std::string_view text) {
  volatile uint8_t sum = SumOf({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  (void)sum;
}

// Whatever sizes a model file gives, the plan of every number of ranks is a plan or a refusal.
inline void CheckShardPlans(const ModelConfig& config) {
  const ShardDims dims{config.num_query_heads, config.num_kv_heads, config.head_dim, config.ffn_size,
                       config.vocab_size};
  for (const int num_ranks : {1, 2, 3, 7}) {
    const Result<ShardPlan> plan = MakeShardPlan(dims, num_ranks);
    if (!plan.ok()) {
      CheckRefusal(plan.status());
      continue;
    }
    WINNOW_CHECK(plan->ffn_columns.back().end == config.ffn_size);
    WINNOW_CHECK(plan->vocab_rows.back().end == config.vocab_size);
  }
}

// Ids of the vocabulary only, and bytes for all of them. True where the text came back as it was.
inline bool RoundTrip(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  const auto ids = tokenizer.Encode(text, options);
  if (!ids.ok()) {
    WINNOW_CHECK(ids.status().code() == StatusCode::kInvalidArgument);
    return false;
  }
  const auto decoded = tokenizer.Decode(*ids);
  WINNOW_CHECK(decoded.ok());
  return *decoded == text;
}

}  // namespace winnow
