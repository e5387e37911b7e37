#include "kv/query_window.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace winnow {

void QueryWindow::Append(int64_t end_token, int64_t num_rows, std::span<const float> queries) {
  WINNOW_CHECK(num_rows > 0 && num_rows <= end_token);
  WINNOW_CHECK(num_rows_ == 0 || end_token - num_rows == end_token_);
  const size_t head_rows = heads_.size() * size_t(num_rows), row_floats = queries.size() / head_rows;
  WINNOW_CHECK(row_floats > 0 && queries.size() == head_rows * row_floats);
  WINNOW_CHECK(num_rows_ == 0 || heads_[0].size() == row_floats * size_t(num_rows_));
  for (int64_t layer = 0; layer < num_layers_; ++layer) {
    for (int64_t row = 0; row < num_rows; ++row) {
      for (int64_t head = 0; head < num_kv_heads_; ++head) {
        const auto part =
            queries.subspan(size_t((layer * num_rows + row) * num_kv_heads_ + head) * row_floats, row_floats);
        std::vector<float>& to = heads_[size_t(layer * num_kv_heads_ + head)];
        to.insert(to.end(), part.begin(), part.end());
      }
    }
  }
  num_rows_ += num_rows;
  end_token_ = end_token;
}

void QueryWindow::Assign(int64_t end_token, int64_t num_rows, std::vector<std::vector<float>> heads) {
  WINNOW_CHECK(heads.size() == heads_.size() && num_rows >= 0 && num_rows <= end_token);
  for (const std::vector<float>& head : heads) WINNOW_CHECK(head.size() == heads[0].size());
  heads_ = std::move(heads);
  num_rows_ = num_rows;
  end_token_ = end_token;
}

void QueryWindow::Rollback(int64_t num_tokens) {
  const int64_t dropped = std::clamp<int64_t>(end_token_ - num_tokens, 0, num_rows_), floats = row_floats();
  for (std::vector<float>& head : heads_) head.resize(size_t((num_rows_ - dropped) * floats));
  num_rows_ -= dropped;
  end_token_ = std::min(end_token_, num_tokens);
}

void QueryWindow::KeepNewest(int64_t num_rows) {
  WINNOW_CHECK(num_rows >= 0);
  if (num_rows == 0) return Clear();
  const int64_t dropped = std::max<int64_t>(num_rows_ - num_rows, 0), floats = row_floats();
  for (std::vector<float>& head : heads_) head.erase(head.begin(), head.begin() + dropped * floats);
  num_rows_ -= dropped;
}

void QueryWindow::Clear() {
  for (std::vector<float>& head : heads_) head.clear();
  num_rows_ = end_token_ = 0;
}

}  // namespace winnow
