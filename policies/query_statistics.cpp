#include "policies/query_statistics.h"

#include <algorithm>
#include <cmath>

#include "base/exact_math.h"
#include "policies/row_products.h"

namespace winnow {
namespace {

// The window's queries turned back to position 0, [rows][group][head_dim], from row `first` on.
std::vector<double> Unrotated(const HeadView& head, size_t first) {
  const size_t pairs = head.rotary_frequencies.size(), rows = head.query_positions.size() - first;
  std::vector<double> cosines(pairs), sines(pairs), step_cosines(pairs), step_sines(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    const auto [sine, cosine] = ExactSinCos(head.rotary_frequencies[i]);
    step_cosines[i] = cosine, step_sines[i] = sine;
  }
  std::vector<double> out(rows * size_t(head.group) * pairs * 2);
  double* to = out.data();
  const float* from = head.queries.data() + first * size_t(head.group) * pairs * 2;
  for (size_t row = 0; row < rows; ++row) {
    const int64_t position = head.query_positions[first + row];
    if (row > 0 && position == head.query_positions[first + row - 1] + 1) {
      for (size_t i = 0; i < pairs; ++i) {  // one step on: an addition of angles, 1e-14 off after 256 of them
        const double c = cosines[i], s = sines[i];
        cosines[i] = c * step_cosines[i] - s * step_sines[i];
        sines[i] = s * step_cosines[i] + c * step_sines[i];
      }
    } else {
      for (size_t i = 0; i < pairs; ++i) {
        const auto [sine, cosine] = ExactSinCos(double(position) * head.rotary_frequencies[i]);
        cosines[i] = cosine, sines[i] = sine;
      }
    }
    for (int64_t query = 0; query < head.group; ++query, from += 2 * pairs, to += 2 * pairs) {
      for (size_t i = 0; i < pairs; ++i) {
        const double a = double(from[i]), b = double(from[i + pairs]);
        to[i] = a * cosines[i] + b * sines[i];
        to[i + pairs] = b * cosines[i] - a * sines[i];
      }
    }
  }
  return out;
}

// Sums of products of centred queries, rows [rows][dims], for the upper half of the form.
void SetForm(const std::vector<float>& centred, int64_t dims, float* form) {
  const int64_t rows = int64_t(centred.size()) / dims;
  const float scale = 1 / float(rows);
  for (int64_t i = 0; i < dims; i += kProductRows) {
    for (int64_t j = i / kProductLanes * kProductLanes; j < dims; j += kProductLanes) {
      float products[kProductRows][kProductLanes];
      RowProducts(&centred[size_t(i)], &centred[size_t(j)],
                  {.row_stride = 1, .factor_stride = dims, .value_stride = dims}, rows, products);
      for (int64_t row = 0; row < kProductRows; ++row) {
        for (int64_t lane = 0; lane < kProductLanes; ++lane) {
          const int64_t column = j + lane;
          const float weight = column < i + row ? 0.0f : column == i + row ? 0.5f : 1.0f;
          form[(i + row) * dims + column] = products[row][lane] * scale * weight;
        }
      }
    }
  }
}

void SetFromWindow(const HeadView& head, int64_t first_position, QueryStatistics* statistics) {
  const auto begin = std::lower_bound(head.query_positions.begin(), head.query_positions.end(), first_position);
  const int64_t rows = head.query_positions.end() - begin, dim = head.head_dim, dims = statistics->dims;
  if (rows == 0) return;
  const std::vector<double> queries = Unrotated(head, size_t(begin - head.query_positions.begin()));
  std::vector<float> centred(size_t(rows * dims), 0.0f);
  std::vector<double> mean(static_cast<size_t>(dim));
  for (int64_t query = 0; query < head.group; ++query) {
    const auto of_row = [&](int64_t row) { return queries.data() + (row * head.group + query) * dim; };
    std::fill(mean.begin(), mean.end(), 0.0);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < dim; ++i) mean[size_t(i)] += of_row(row)[i];
    }
    for (int64_t i = 0; i < dim; ++i) {
      mean[size_t(i)] /= double(rows);
      statistics->mean[size_t(query * dims + i)] = float(mean[size_t(i)]);
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < dim; ++i) centred[size_t(row * dims + i)] = float(of_row(row)[i] - mean[size_t(i)]);
    }
    SetForm(centred, dims, statistics->form.data() + query * dims * dims);
  }
}

void SetFromMoments(const HeadView& head, QueryStatistics* statistics) {
  const int64_t dim = head.head_dim, dims = statistics->dims;
  const double count = double(head.query_moments.num_queries);
  for (int64_t query = 0; query < head.group; ++query) {
    const double* first = head.query_moments.sums.data() + query * dim;
    const double* second = head.query_moments.sums.data() + head.group * dim + query * dim * dim;
    for (int64_t i = 0; i < dim; ++i) {
      const double mean = first[i] / count;
      statistics->mean[size_t(query * dims + i)] = float(mean);
      float* row = statistics->form.data() + (query * dims + i) * dims;
      for (int64_t j = i; j < dim; ++j) {
        const double covariance = second[i * dim + j] / count - mean * (first[j] / count);
        row[j] = float(i == j ? covariance / 2 : covariance);
      }
    }
  }
}

}  // namespace

QueryStatistics StatisticsOf(const HeadView& head, int64_t first_position) {
  QueryStatistics statistics{.group = head.group, .dims = PaddedHeadDim(head.head_dim), .mean = {}, .form = {}};
  statistics.mean.resize(size_t(head.group * statistics.dims), 0.0f);
  statistics.form.resize(size_t(head.group * statistics.dims * statistics.dims), 0.0f);
  if (head.query_moments.num_queries > 0) {
    SetFromMoments(head, &statistics);
  } else {
    SetFromWindow(head, first_position, &statistics);
  }
  return statistics;
}

std::vector<float> ExpectedLogits(const QueryStatistics& statistics, int64_t query, const SlotTiles& keys) {
  static_assert(kDotSlots == kProductLanes);
  const int64_t dims = statistics.dims;
  const float* mean = statistics.mean.data() + query * dims;
  const float* form = statistics.form.data() + query * dims * dims;
  std::vector<float> logits(size_t(keys.padded_slots()), 0.0f);
  for (int64_t slot = 0; slot < keys.padded_slots(); slot += kProductLanes) {
    const float* tile = keys.tile(slot / kProductLanes);
    float sums[kProductLanes] = {};  // not the vector's: the compiler could not tell that it is none of the operands
    for (int64_t i = 0; i < dims; i += kProductRows) {
      float products[kProductRows][kProductLanes];
      RowProducts(form + i * dims + i, tile + i * kProductLanes,
                  {.row_stride = dims, .factor_stride = 1, .value_stride = kProductLanes}, dims - i, products);
      for (int64_t row = 0; row < kProductRows; ++row) {
        const float* key = tile + (i + row) * kProductLanes;
        const float of_mean = mean[i + row];
        for (int64_t lane = 0; lane < kProductLanes; ++lane) {
          sums[lane] = std::fma(key[lane], products[row][lane] + of_mean, sums[lane]);
        }
      }
    }
    std::copy_n(sums, kProductLanes, logits.begin() + slot);
  }
  return logits;
}

}  // namespace winnow
