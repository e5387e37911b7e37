// Sums over the queries of one sequence's tokens on this rank, for policies that score by their mean and covariance
// (policies/expected_attention.cpp). Its SequenceCache owns them; engine thread only.
// Memory: layers * local query heads * head_dim * (head_dim + 1) * 8 bytes, whatever the number of tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

class QuerySums {
 public:
  QuerySums(int64_t num_layers, int64_t num_kv_heads) : num_layers_(num_layers), num_kv_heads_(num_kv_heads) {}

  int64_t num_queries() const { return num_queries_; }  // tokens that were added
  int64_t group() const { return group_; }              // query heads of a KV head; 0 before the first token
  // [group][head_dim] sums of x, then [group][head_dim][head_dim] sums of x_i x_j for j >= i, 0 elsewhere, of the
  // queries x as they are before they are rotated (scaled, as they come). Empty before the first token.
  std::span<const double> head(int64_t layer, int64_t local_head) const;

  // Adds tokens, in their order: the sums have the same bits for any division into calls. positions [rows] that the
  // queries are rotated by; frequencies [head_dim / 2], radians per position of the pairs (i, i + head_dim / 2);
  // queries [layer][rows][local KV head][query heads of the KV head][head_dim].
  void Add(std::span<const int64_t> positions, std::span<const double> frequencies, std::span<const float> queries);
  void Clear();

 private:
  int64_t head_sums() const { return group_ * head_dim_ * (head_dim_ + 1); }

  int64_t num_layers_, num_kv_heads_;
  int64_t num_queries_ = 0, group_ = 0, head_dim_ = 0;
  std::vector<double> sums_;  // [layer][local head][head_sums()]
};

}  // namespace winnow
