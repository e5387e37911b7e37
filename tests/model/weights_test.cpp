#include "model/weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compute/weight_blocks.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

using Matrix = std::vector<std::vector<float>>;  // [row][column]

// The loaded values, read through a product with unit vectors: exact, since every other term is 0.
Matrix Unpack(Backend& backend, const Weight& weight) {
  const int64_t rows = weight.rows(), columns = weight.columns();
  std::vector<float> units(size_t(columns * columns), 0.0f), products(size_t(columns * rows));
  for (int64_t i = 0; i < columns; ++i) units[size_t(i * columns + i)] = 1;
  const Buffer x = backend.Allocate(4 * columns * columns).value(), y = backend.Allocate(4 * columns * rows).value();
  const Tensor x_view = x.View(DType::kF32, {columns, columns}), y_view = y.View(DType::kF32, {columns, rows});
  backend.CopyToDevice(x_view, std::as_bytes(std::span(units)));
  const MatMulTarget target{&weight, y_view};
  backend.MatMul(x_view, {&target, 1});
  backend.CopyToHost(std::as_writable_bytes(std::span(products)), y_view);
  Matrix matrix(static_cast<size_t>(rows), std::vector<float>(static_cast<size_t>(columns)));
  for (size_t r = 0; r < matrix.size(); ++r) {
    for (size_t c = 0; c < size_t(columns); ++c) matrix[r][c] = products[c * size_t(rows) + r];
  }
  return matrix;
}

// As it stands in the file.
Matrix FileMatrix(const GgufFile& file, const std::string& name) {
  const GgufTensor& tensor = *file.GetTensor(name).value();
  Matrix matrix(static_cast<size_t>(tensor.shape[1]), std::vector<float>(static_cast<size_t>(tensor.shape[0])));
  for (size_t r = 0; r < matrix.size(); ++r) {
    const auto* row = reinterpret_cast<const std::byte*>(tensor.data) + int64_t(r) * tensor.num_bytes / tensor.shape[1];
    DequantiseRow(tensor.dtype, row, 0, tensor.shape[0], matrix[r].data());
  }
  return matrix;
}

Matrix Rows(const Matrix& matrix, int64_t begin, int64_t end) {
  return {matrix.begin() + begin, matrix.begin() + end};
}
Matrix Columns(const Matrix& matrix, int64_t begin, int64_t end) {
  Matrix part;
  for (const auto& row : matrix) part.emplace_back(row.begin() + begin, row.begin() + end);
  return part;
}

class WeightsTest : public testing::Test {
 protected:
  static TinyModelSpec Spec() {
    return {.num_layers = 1, .num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 576, .tied_embeddings = false};
  }
  ModelWeights Load(int num_ranks, int rank) {
    plan_ = MakeShardPlan(ShardDimsOf(model_.config), num_ranks).value();
    return LoadWeights(model_.file, model_.config, plan_, rank, *backend_, nullptr).value();
  }

  TinyModel model_{Spec()};
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend(ReferenceArithmetic::kFloat);
  ShardPlan plan_;
};

TEST_F(WeightsTest, AllButQAndKStandAsInTheFile) {
  const ModelWeights weights = Load(1, 0);
  const LayerWeights& layer = weights.layers.at(0);
  EXPECT_EQ(Unpack(*backend_, *layer.v), FileMatrix(model_.file, "blk.0.attn_v.weight"));
  EXPECT_EQ(Unpack(*backend_, *layer.output), FileMatrix(model_.file, "blk.0.attn_output.weight"));
  EXPECT_EQ(Unpack(*backend_, *layer.gate), FileMatrix(model_.file, "blk.0.ffn_gate.weight"));
  EXPECT_EQ(Unpack(*backend_, *layer.up), FileMatrix(model_.file, "blk.0.ffn_up.weight"));
  EXPECT_EQ(Unpack(*backend_, *layer.down), FileMatrix(model_.file, "blk.0.ffn_down.weight"));
  EXPECT_EQ(Unpack(*backend_, *weights.embedding), FileMatrix(model_.file, "token_embd.weight"));
  EXPECT_EQ(Unpack(*backend_, weights.head()), FileMatrix(model_.file, "output.weight"));
}

TEST_F(WeightsTest, InterleavedRowsOfQAndKBecomeHalves) {
  const ModelWeights weights = Load(1, 0);
  for (const bool is_q : {true, false}) {
    const Matrix file = FileMatrix(model_.file, is_q ? "blk.0.attn_q.weight" : "blk.0.attn_k.weight");
    const Matrix loaded = Unpack(*backend_, is_q ? *weights.layers[0].q : *weights.layers[0].k);
    const size_t head_dim = 32;
    ASSERT_EQ(loaded.size(), file.size());
    for (size_t row = 0; row < file.size(); ++row) {
      const size_t head = row / head_dim, pair = row % head_dim / 2, half = row % 2;
      EXPECT_EQ(loaded[head * head_dim + half * head_dim / 2 + pair], file[row]) << row;
    }
  }
}

// What the row order is for: scores of rotated queries and keys.
TEST_F(WeightsTest, HalvesRotatedGiveTheScoresOfTheFilesPairsRotated) {
  const ModelWeights weights = Load(1, 0);
  const Matrix q_file = FileMatrix(model_.file, "blk.0.attn_q.weight");
  const Matrix k_file = FileMatrix(model_.file, "blk.0.attn_k.weight");
  const Matrix q_loaded = Unpack(*backend_, *weights.layers[0].q), k_loaded = Unpack(*backend_, *weights.layers[0].k);
  const size_t head_dim = 32, hidden = size_t(model_.config.hidden_size);
  const auto times = [&](const Matrix& w, size_t row, double frequency) {
    double sum = 0;
    for (size_t c = 0; c < hidden; ++c) sum += double(w[row][c]) * std::cos(frequency * double(c));
    return sum;
  };
  // Head 0 of a vector projected and turned at a position; pairs (a, b) of rows at first + i * step and + distance.
  const auto head = [&](const Matrix& w, double frequency, double position, size_t step, size_t distance) {
    std::vector<double> turned;
    for (size_t i = 0; i < head_dim / 2; ++i) {
      const double angle = position * std::pow(10000.0, -2.0 * double(i) / double(head_dim));
      const double a = times(w, i * step, frequency), b = times(w, i * step + distance, frequency);
      turned.push_back(a * std::cos(angle) - b * std::sin(angle));
      turned.push_back(a * std::sin(angle) + b * std::cos(angle));
    }
    return turned;
  };
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  for (double position : {0.0, 1.0, 90.0}) {
    const double in_file = dot(head(q_file, 0.3, position, 2, 1), head(k_file, 0.7, 5, 2, 1));
    const double loaded = dot(head(q_loaded, 0.3, position, 1, 16), head(k_loaded, 0.7, 5, 1, 16));
    EXPECT_NEAR(loaded, in_file, 1e-9 * (1 + std::abs(in_file))) << position;
  }
}

TEST_F(WeightsTest, AShardIsASliceOfTheWhole) {
  const ModelWeights whole = Load(1, 0);
  for (int num_ranks : {2, 3}) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      const ModelWeights part = Load(num_ranks, rank);
      const Range q = plan_.query_heads(rank), kv = plan_.kv_heads[size_t(rank)], ffn = plan_.ffn_columns[size_t(rank)];
      const Range vocab = plan_.vocab_rows[size_t(rank)];
      const auto expect_rows = [&](const Weight& got, const Weight& from, int64_t begin, int64_t end) {
        EXPECT_EQ(Unpack(*backend_, got), Rows(Unpack(*backend_, from), begin, end)) << rank << " of " << num_ranks;
      };
      const auto expect_columns = [&](const Weight& got, const Weight& from, int64_t begin, int64_t end) {
        EXPECT_EQ(Unpack(*backend_, got), Columns(Unpack(*backend_, from), begin, end)) << rank << " of " << num_ranks;
      };
      expect_rows(*part.layers[0].q, *whole.layers[0].q, q.begin * 32, q.end * 32);
      expect_rows(*part.layers[0].k, *whole.layers[0].k, kv.begin * 32, kv.end * 32);
      expect_rows(*part.layers[0].v, *whole.layers[0].v, kv.begin * 32, kv.end * 32);
      expect_columns(*part.layers[0].output, *whole.layers[0].output, q.begin * 32, q.end * 32);
      expect_rows(*part.layers[0].gate, *whole.layers[0].gate, ffn.begin, ffn.end);
      expect_rows(*part.layers[0].up, *whole.layers[0].up, ffn.begin, ffn.end);
      expect_columns(*part.layers[0].down, *whole.layers[0].down, ffn.begin, ffn.end);
      expect_rows(*part.embedding, *whole.embedding, vocab.begin, vocab.end);
      expect_rows(part.head(), whole.head(), vocab.begin, vocab.end);
    }
  }
}

TEST_F(WeightsTest, ATiedHeadIsTheEmbedding) {
  TinyModelSpec spec = Spec();
  spec.tied_embeddings = true;
  const TinyModel tied(spec);
  const ShardPlan plan = MakeShardPlan(ShardDimsOf(tied.config), 1).value();
  const ModelWeights weights = LoadWeights(tied.file, tied.config, plan, 0, *backend_, nullptr).value();
  EXPECT_EQ(&weights.head(), weights.embedding.get());
}

TEST_F(WeightsTest, ProgressEndsAtTheBytesOfAllTensors) {
  int64_t done = 0, total = 0, calls = 0, expected = 0;
  for (const GgufTensor& tensor : model_.file.gguf_tensors()) expected += tensor.num_bytes;
  const ShardPlan plan = MakeShardPlan(ShardDimsOf(model_.config), 3).value();
  const auto weights = LoadWeights(model_.file, model_.config, plan, 1, *backend_, [&](int64_t now, int64_t all) {
    EXPECT_GT(now, done);
    done = now;
    total = all;
    ++calls;
  });
  ASSERT_TRUE(weights.ok());
  EXPECT_EQ(done, expected);
  EXPECT_EQ(total, expected);
  EXPECT_EQ(calls, int64_t(model_.file.gguf_tensors().size()));
}

}  // namespace
}  // namespace winnow
