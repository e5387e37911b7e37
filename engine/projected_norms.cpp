#include "engine/projected_norms.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace winnow {

Result<std::unique_ptr<ProjectedNorms>> ProjectedNorms::Make(Transformer& transformer) {
  const ModelConfig& config = transformer.config();
  const int64_t head_dim = config.head_dim;
  std::unique_ptr<ProjectedNorms> norms(new ProjectedNorms(transformer.query_heads().size(), head_dim));
  std::vector<float> columns;  // [head_dim][hidden]
  std::vector<double> row(static_cast<size_t>(head_dim));
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (int64_t head = 0; head < norms->query_heads_; ++head) {
      WINNOW_RETURN_IF_ERROR(transformer.ReadOutputColumns(layer, head, &columns));
      std::vector<double>& product = norms->products_.emplace_back(size_t(head_dim * head_dim), 0.0);
      for (int64_t n = 0; n < config.hidden_size; ++n) {
        for (int64_t i = 0; i < head_dim; ++i) row[size_t(i)] = columns[size_t(i * config.hidden_size + n)];
        for (int64_t i = 0; i < head_dim; ++i) {
          for (int64_t j = 0; j < head_dim; ++j) product[size_t(i * head_dim + j)] += row[size_t(i)] * row[size_t(j)];
        }
      }
    }
  }
  return norms;
}

void ProjectedNorms::Of(int64_t layer, int64_t local_query_head, std::span<const float> values,
                        std::span<float> norms) const {
  WINNOW_CHECK(values.size() == norms.size() * size_t(head_dim_));
  const std::vector<double>& product = products_[size_t(layer * query_heads_ + local_query_head)];
  std::vector<double> image(static_cast<size_t>(head_dim_));
  for (size_t slot = 0; slot < norms.size(); ++slot) {
    const float* value = values.data() + slot * size_t(head_dim_);
    std::fill(image.begin(), image.end(), 0.0);
    for (size_t i = 0; i < image.size(); ++i) {
      const double factor = value[i];
      for (size_t j = 0; j < image.size(); ++j) image[j] += product[i * image.size() + j] * factor;
    }
    double squared = 0;
    for (size_t j = 0; j < image.size(); ++j) squared += image[j] * double(value[j]);
    // Rounding may leave a little less than 0; the largest float instead of infinity, which times 0 would be NaN.
    const double norm = squared > 0 ? std::sqrt(squared) : 0.0;
    norms[slot] = float(std::min(norm, double(std::numeric_limits<float>::max())));
  }
}

}  // namespace winnow
