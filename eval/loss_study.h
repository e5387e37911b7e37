// Teacher-forced loss of recorded texts under eviction policies, beside the full cache: one text runs through the
// engine once per case and once with a full cache, all in the same steps, so that every position is compared on the
// spot and no logits are kept. Every rank drives its own engine with the same plans; nothing is decided on one rank
// alone. Collective; engine thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/model_runner.h"

namespace winnow {

struct EvalText {
  std::string id;    // names the document: the unit of resampling
  std::string kind;  // "prose", "code", ...
  std::vector<int32_t> tokens;
  // The first ones that are a prompt, for policies that evict after it, and where it is protected. 0: the text has
  // none.
  int64_t prompt_tokens = 0;
};

// What one text gave under one case, over the positions that an eviction can have touched: those from token
// budget + interval on (ForesightKV, Table 2 counts the same ones), or from the end of the prompt on for policies that
// act then. Losses in nats.
struct TextScore {
  int64_t positions = 0;
  double loss = 0, full_loss = 0;  // sums
  // The 20 % of these positions at which the full cache's prediction has the highest entropy, and the others.
  int64_t high_entropy_positions = 0;
  double high_entropy_loss = 0, high_entropy_full_loss = 0;
  double kl = 0;               // sum of KL(full || case)
  int64_t top1_agreement = 0;  // positions where both would choose the same token
  double kept_ratio_sum = 0;   // sum over all tokens of slots held / tokens seen
  int64_t tokens = 0;
  SequenceReport cache;

  double low_entropy_loss() const { return loss - high_entropy_loss; }
  double low_entropy_full_loss() const { return full_loss - high_entropy_full_loss; }
};

// One number per case, in the order of the cases. cases: resolved for this text and evicting; after_prefill ones need a
// prompt. The runner's pool must hold LossStudySlots, and have mass if a case observes anything. seed: of policies that
// draw. What the text's rest attends to is recorded first for the cases that look at it, in a pass of its own. A row
// that is not finite is a kNumerical error naming the policy ("full" comes first) and the position.
Result<std::vector<TextScore>> RunLossStudy(ModelRunner& runner, const EvalText& text,
                                            const std::vector<EvictionSettings>& cases, uint64_t seed,
                                            const std::function<void(int64_t tokens_done)>& progress);

// What `progress` of RunLossStudy counts up to: the tokens that are read, recording passes included.
int64_t LossStudyTokens(const EvalText& text, const std::vector<EvictionSettings>& cases);

// Slots per layer and KV head that RunLossStudy needs at the same time on the rank with least room.
int64_t LossStudySlots(const EvalText& text, const std::vector<EvictionSettings>& cases, const KvShards& shards);

}  // namespace winnow
