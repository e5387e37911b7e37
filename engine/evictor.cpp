#include "engine/evictor.h"

namespace winnow {

void EvictToBudget(const EvictionPolicy& policy, const Request& request, SequenceCache& cache) {
  const EvictionSettings& settings = request.eviction;
  const Protection protection{settings.sink_tokens, settings.recent_tokens};
  KeepPlan plan;
  std::vector<float> scores;
  for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
    for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
      const HeadCache& slots = cache.head(layer, head);
      scores.assign(size_t(slots.length()), 0.0f);
      const HeadView view{.layer = layer,
                          .global_head = cache.first_kv_head() + head,
                          .positions = slots.positions,
                          .tokens_seen = cache.tokens_seen(),
                          .prompt_tokens = int64_t(request.prompt.size()),
                          .eviction_index = cache.evictions(),
                          .seed = request.sampling.seed,
                          .choice_index = request.choice_index};
      policy.Score(view, scores);
      plan.kept.push_back(SelectKept(slots.positions, scores, settings.budget, protection));
    }
  }
  cache.Compact(plan);
}

}  // namespace winnow
