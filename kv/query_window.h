// The queries of one sequence's observation window on this rank, on the host: of its newest tokens before an eviction,
// for policies that score by them. Its SequenceCache owns it; engine thread only.
// Memory at most: layers * window tokens * local query heads * head_dim * 4 bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace winnow {

class QueryWindow {
 public:
  QueryWindow(int64_t num_layers, int64_t num_kv_heads)
      : num_layers_(num_layers), num_kv_heads_(num_kv_heads), heads_(size_t(num_layers * num_kv_heads)) {}

  // Tokens whose queries are held: the text's [end_token() - num_rows(), end_token()).
  int64_t num_rows() const { return num_rows_; }
  int64_t end_token() const { return end_token_; }
  // [num_rows][query heads of the KV head][head_dim] f32, rotated and scaled, oldest token first.
  const std::vector<float>& head(int64_t layer, int64_t local_head) const {
    return heads_[size_t(layer * num_kv_heads_ + local_head)];
  }
  // Floats of one token in head().
  int64_t row_floats() const { return num_rows_ == 0 ? 0 : int64_t(heads_[0].size()) / num_rows_; }

  // The queries of the num_rows tokens before end_token, which follow those held:
  // [layer][num_rows][local KV head][query heads of the KV head][head_dim].
  void Append(int64_t end_token, int64_t num_rows, std::span<const float> queries);
  // What a saved text held: as head() returns them, [layer][local head].
  void Assign(int64_t end_token, int64_t num_rows, std::vector<std::vector<float>> heads);
  // Drops all but the newest num_rows.
  void KeepNewest(int64_t num_rows);
  // Drops the queries of tokens from the num_tokens-th of the text on: they were taken back.
  void Rollback(int64_t num_tokens);
  void Clear();

 private:
  int64_t num_layers_, num_kv_heads_;
  int64_t num_rows_ = 0, end_token_ = 0;
  std::vector<std::vector<float>> heads_;
};

}  // namespace winnow
