// How long the output projection makes a value: ||W_O^(g) v|| of every query head g, for policies that weigh a slot by
// what it writes into the residual stream. Immutable once made; one per rank, for its own heads. Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "model/transformer.h"

namespace winnow {

class ProjectedNorms {
 public:
  // Reads the projections of all layers and keeps W^T W of every query head: 8 head_dim^2 bytes each (SmolLM2-135M: 9
  // MB, an 8B model: 134 MB). OutOfMemory. No collective.
  static Result<std::unique_ptr<ProjectedNorms>> Make(Transformer& transformer);

  // norms [slots] of values [slots][head_dim], by a query head of this rank. Doubles added in one order: the same for
  // any split of heads.
  void Of(int64_t layer, int64_t local_query_head, std::span<const float> values, std::span<float> norms) const;

 private:
  ProjectedNorms(int64_t query_heads, int64_t head_dim) : query_heads_(query_heads), head_dim_(head_dim) {}

  int64_t query_heads_, head_dim_;
  std::vector<std::vector<double>> products_;  // [layer * query_heads + head][head_dim][head_dim]
};

}  // namespace winnow
