#include "tests/support/teacher_forcing.h"

#include <numeric>

namespace winnow {

Status RunTeacherForcing(
    RankEngine& engine, std::span<const std::vector<int32_t>> sequences, int64_t chunk,
    const std::function<void(size_t sequence, int64_t position, std::span<const float> logits)>& on_logits) {
  Transformer& transformer = engine.transformer();
  KvBatch batch(engine.pool().backend());
  ForwardResult result;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const std::vector<int32_t>& tokens = sequences[s];
    const Range heads = transformer.kv_heads();
    SequenceCache cache(engine.pool(), transformer.config().num_layers, heads.size(), heads.begin);
    for (int64_t begin = 0; begin < int64_t(tokens.size()); begin += chunk) {
      const int64_t count = std::min<int64_t>(chunk, int64_t(tokens.size()) - begin);
      WINNOW_RETURN_IF_ERROR(cache.Reserve(count));
      cache.Append(count);
      const KvBatchItem item{&cache, count};
      WINNOW_RETURN_IF_ERROR(batch.Build({&item, 1}));
      std::vector<int64_t> positions(static_cast<size_t>(count));
      std::vector<int32_t> rows(static_cast<size_t>(count));
      std::iota(positions.begin(), positions.end(), begin);
      std::iota(rows.begin(), rows.end(), 0);
      WINNOW_RETURN_IF_ERROR(transformer.Forward({.token_ids = std::span(tokens).subspan(size_t(begin), size_t(count)),
                                                  .positions = positions,
                                                  .logit_rows = rows,
                                                  .kv = &batch,
                                                  .pages = engine.pool().pages()},
                                                 &result));
      on_logits(s, begin, result.logits);
    }
  }
  return OkStatus();
}

}  // namespace winnow
