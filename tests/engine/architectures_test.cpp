// Every architecture against transformers: tiny models of made-up weights, in float32, cut to their first 1, 2 and 3
// layers (tests/golden/make_architecture_golden.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/exact_math.h"
#include "engine/rank_engine.h"
#include "model/dummy_weights.h"
#include "model/hf_config.h"
#include "tests/support/gguf_copy.h"
#include "tests/support/teacher_forcing.h"

namespace winnow {
namespace {

using Rows = std::vector<std::vector<float>>;  // [position][vocabulary]

struct Golden {
  nlohmann::json config;
  std::vector<int32_t> ids;
  std::vector<size_t> positions;
  std::vector<Rows> logits;  // of the first 1, 2, ... layers
};

Golden ReadGolden(const std::string& family) {
  std::ifstream file(std::string(WINNOW_GOLDEN_DIR) + "/architectures/" + family + ".json");
  const auto json = nlohmann::json::parse(file);
  return {json.at("config"), json.at("ids"), json.at("positions"), json.at("logits")};
}

ModelConfig ConfigOf(const Golden& golden, size_t layers) {
  nlohmann::json config = golden.config;
  config["num_hidden_layers"] = layers;
  const auto parsed = ParseHfConfig(config.dump(), "config.json");
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed->model;
}

// Logits of every token.
Rows LogitsOf(const TensorSource& source, const ModelConfig& config, const std::string& backend, int num_ranks,
              const std::vector<int32_t>& ids) {
  Rows rows(ids.size(), std::vector<float>(size_t(config.vocab_size)));
  RunThreadRanks(num_ranks, [&](Communicator& communicator) {
    auto made = RankEngine::Make(source, config, {.backend = backend, .kv_cache_dtype = DType::kF32, .pool_slots = 64},
                                 communicator, nullptr);
    ASSERT_TRUE(made.ok()) << made.status().message();
    RankEngine& engine = **made;
    const Range vocab = engine.transformer().vocab_rows();
    const std::vector<std::vector<int32_t>> sequences = {ids};
    const Status status =
        RunTeacherForcing(engine, sequences, 13, [&](size_t, int64_t position, std::span<const float> logits) {
          for (size_t i = 0; i < logits.size(); ++i) {  // every rank writes elements of its own
            const int64_t row = position + int64_t(i) / vocab.size(), id = vocab.begin + int64_t(i) % vocab.size();
            rows[size_t(row)][size_t(id)] = logits[i];
          }
        });
    EXPECT_TRUE(status.ok()) << status.message();
  });
  return rows;
}

// The largest difference, in parts of the largest logit.
double Distance(const Rows& rows, const Golden& golden, size_t layers) {
  double difference = 0, largest = 0;
  for (size_t p = 0; p < golden.positions.size(); ++p) {
    const auto& expected = golden.logits[layers - 1][p];
    const auto& found = rows[golden.positions[p]];
    EXPECT_EQ(found.size(), expected.size());
    for (size_t id = 0; id < expected.size(); ++id) {
      difference = std::max(difference, double(std::abs(found[id] - expected[id])));
      largest = std::max(largest, double(std::abs(expected[id])));
    }
  }
  return difference / largest;
}

class Architectures : public testing::TestWithParam<const char*> {};

TEST_P(Architectures, LogitsAreThoseOfTransformers) {
  const Golden golden = ReadGolden(GetParam());
  double worst = 0;
  for (const char* backend : {"reference-float", "cpu"}) {
    for (size_t layers = 1; layers <= golden.logits.size(); ++layers) {
      const ModelConfig config = ConfigOf(golden, layers);
      const DummyWeights weights(config, DType::kF32, "config.json");
      const double distance = Distance(LogitsOf(weights, config, backend, 1, golden.ids), golden, layers);
      EXPECT_LT(distance, 2e-5) << backend << ", the first " << layers << " layers";
      worst = std::max(worst, distance);
    }
  }
  RecordProperty("distance_in_1e9", int(worst * 1e9));
}

TEST_P(Architectures, BitsDoNotDependOnRanks) {
  const Golden golden = ReadGolden(GetParam());
  const ModelConfig config = ConfigOf(golden, 2);
  const DummyWeights weights(config, DType::kBF16, "config.json");
  const Rows alone = LogitsOf(weights, config, "cpu", 1, golden.ids);
  EXPECT_TRUE(LogitsOf(weights, config, "cpu", 2, golden.ids) == alone);
  EXPECT_TRUE(LogitsOf(weights, config, "cpu", 3, golden.ids) == alone);
  EXPECT_TRUE(LogitsOf(weights, config, "cpu", 4, golden.ids) == alone) << "replicas of a KV head";
}

// Rows of Q and K stand in another order there, for llama alone (field case 76).
TEST_P(Architectures, AGgufFileOfTheSameWeightsGivesTheSameBits) {
  const Golden golden = ReadGolden(GetParam());
  const ModelConfig config = ConfigOf(golden, 2);
  const DummyWeights weights(config, DType::kBF16, "config.json");
  const auto file = GgufFile::FromBytes("copy.gguf", GgufCopyOf(weights, config));
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto from_file = ReadModelConfig(*file);
  ASSERT_TRUE(from_file.ok()) << from_file.status().message();
  EXPECT_EQ(from_file->permuted_qk_rows, config.architecture == "llama");
  const Rows expected = LogitsOf(weights, config, "cpu", 1, golden.ids);
  const Rows found = LogitsOf(*file, *from_file, "cpu", 2, golden.ids);
  const RopeScaling& scaling = config.rope_scaling;
  const bool is_paper_yarn = scaling.attention_factor == 0.1 * ExactLog(scaling.factor) + 1;
  const bool has_rounded_factors =
      scaling.type == RopeScaling::Type::kLlama3 || (scaling.type == RopeScaling::Type::kYarn && !is_paper_yarn);
  if (!has_rounded_factors) {
    EXPECT_TRUE(found == expected);
    return;
  }
  // The file carries the factors as floats: a bit of a cosine differs here and there.
  for (size_t row = 0; row < found.size(); ++row) {
    const float largest = *std::max_element(expected[row].begin(), expected[row].end());
    for (size_t id = 0; id < found[row].size(); ++id) {
      ASSERT_NEAR(found[row][id], expected[row][id], 1e-5 * largest) << row;
    }
  }
}

TEST(DummyModel, ActivationsOf80LayersStayFiniteAndOfTheSameBitsOnAnyRanks) {
  Golden golden = ReadGolden("qwen3");
  golden.config["tie_word_embeddings"] = false;
  const ModelConfig config = ConfigOf(golden, 80);
  const DummyWeights weights(config, DType::kBF16, "config.json");
  const std::vector<int32_t> ids(golden.ids.begin(), golden.ids.begin() + 12);
  const Rows rows = LogitsOf(weights, config, "cpu", 1, ids);
  for (const auto& row : rows) {
    const double squares = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
    const double size = std::sqrt(squares / double(row.size()));
    EXPECT_TRUE(size > 0.3 && size < 3) << size;
  }
  EXPECT_TRUE(LogitsOf(weights, config, "cpu", 3, ids) == rows);
}

// An FFN of 129 x 128 columns: one segment more than sums have room for, so it is cut into 86 of 192.
TEST(DummyModel, WiderFfnSegmentsGiveTheSameBitsToo) {
  Golden golden = ReadGolden("qwen3");
  golden.config["intermediate_size"] = 129 * 128;
  const ModelConfig config = ConfigOf(golden, 1);
  ASSERT_EQ(FfnSegmentColumns(ShardDimsOf(config)), 192);
  const DummyWeights weights(config, DType::kBF16, "config.json");
  const std::vector<int32_t> ids(golden.ids.begin(), golden.ids.begin() + 3);
  const Rows rows = LogitsOf(weights, config, "cpu", 1, ids);
  EXPECT_TRUE(LogitsOf(weights, config, "cpu", 3, ids) == rows);
  EXPECT_TRUE(LogitsOf(weights, config, "reference", 1, ids) == rows);
}

INSTANTIATE_TEST_SUITE_P(Families, Architectures,
                         testing::Values("llama2", "llama3_linear", "llama3_llama3", "llama3_yarn", "mistral", "qwen2",
                                         "qwen2_yarn", "qwen3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace winnow
