#include "kv/query_sums.h"

#include <cmath>

#include "base/check.h"
#include "base/exact_math.h"

namespace winnow {
namespace {

// x [d] turned back by the angles whose cosines and sines are cos_sin [d].
void TurnBack(const float* x, const std::vector<double>& cos_sin, std::vector<double>* out) {
  const size_t half = cos_sin.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const double a = double(x[i]), b = double(x[i + half]), c = cos_sin[i], s = cos_sin[i + half];
    (*out)[i] = a * c + b * s;
    (*out)[i + half] = b * c - a * s;
  }
}

}  // namespace

std::span<const double> QuerySums::head(int64_t layer, int64_t local_head) const {
  if (num_queries_ == 0) return {};
  return std::span(sums_).subspan(size_t((layer * num_kv_heads_ + local_head) * head_sums()), size_t(head_sums()));
}

void QuerySums::Add(std::span<const int64_t> positions, std::span<const double> frequencies,
                    std::span<const float> queries) {
  const int64_t rows = int64_t(positions.size()), dim = 2 * int64_t(frequencies.size());
  const int64_t group = int64_t(queries.size()) / (num_layers_ * rows * num_kv_heads_ * dim);
  WINNOW_CHECK(group > 0 && int64_t(queries.size()) == num_layers_ * rows * num_kv_heads_ * group * dim);
  WINNOW_CHECK(num_queries_ == 0 || (group == group_ && dim == head_dim_));
  group_ = group, head_dim_ = dim;
  if (num_queries_ == 0) sums_.assign(size_t(num_layers_ * num_kv_heads_ * head_sums()), 0.0);
  std::vector<double> cos_sin(static_cast<size_t>(dim)), x(static_cast<size_t>(dim));
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const auto [sine, cosine] = ExactSinCos(double(positions[size_t(row)]) * frequencies[i]);
      cos_sin[i] = cosine;
      cos_sin[i + frequencies.size()] = sine;
    }
    for (int64_t layer = 0; layer < num_layers_; ++layer) {
      const float* query = queries.data() + (layer * rows + row) * num_kv_heads_ * group * dim;
      for (int64_t head = 0; head < num_kv_heads_; ++head) {
        double* sums = sums_.data() + (layer * num_kv_heads_ + head) * head_sums();
        for (int64_t g = 0; g < group; ++g, query += dim) {
          TurnBack(query, cos_sin, &x);
          double* first = sums + g * dim;
          double* second = sums + group * dim + g * dim * dim;
          for (int64_t i = 0; i < dim; ++i) {
            first[i] += x[size_t(i)];
            double* products = second + i * dim;
            const double factor = x[size_t(i)];
            for (int64_t j = i; j < dim; ++j) products[j] = std::fma(factor, x[size_t(j)], products[j]);
          }
        }
      }
    }
  }
  num_queries_ += rows;
}

void QuerySums::Clear() {
  sums_.clear();
  num_queries_ = group_ = head_dim_ = 0;
}

}  // namespace winnow
