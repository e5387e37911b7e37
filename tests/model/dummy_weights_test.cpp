#include "model/dummy_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/philox.h"
#include "compute/weight_blocks.h"
#include "dist/shard.h"
#include "model/hf_config.h"
#include "model/model_tensors.h"
#include "model/weights.h"

namespace winnow {
namespace {

// Columns that are no multiple of what is made at a time.
ModelConfig Small() {
  ModelConfig config;
  config.architecture = "qwen2";
  config.hidden_size = 96, config.num_layers = 2, config.num_query_heads = 3, config.num_kv_heads = 1;
  config.head_dim = 32, config.ffn_size = 192, config.vocab_size = 80, config.max_context = 128;
  config.qkv_bias = config.qk_norm = true;
  return config;
}

std::vector<float> Values(const DummyWeights& weights, const std::string& name, const std::vector<int64_t>& rows) {
  const TensorInfo& tensor = *weights.Find(name);
  const TensorRows made = weights.Rows(tensor, rows).value();
  const int64_t columns = tensor.shape[0];
  std::vector<float> all;
  for (const int64_t row : made.rows) {
    std::vector<float> values(static_cast<size_t>(columns));
    DequantiseRow(tensor.dtype, made.data.data() + row * BytesOf(tensor.dtype, columns), 0, columns, values.data());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// From the description in model/dummy_weights.h, a number at a time.
float Number(const std::string& name, uint64_t index) {
  uint64_t key = 0xcbf29ce484222325;
  for (const unsigned char c : name) key = (key ^ c) * 0x100000001b3;
  const uint32_t bits = Philox(key, {7, uint32_t(index / 4), uint32_t(index / 4 >> 32), 0})[index % 4];
  return float((2.0 * (bits >> 9) + 1) / 8388608 - 1);
}

TEST(DummyWeights, NumbersAreThoseOfTheDescription) {
  const DummyWeights weights(Small(), DType::kF32, "config.json");
  const auto expect = [&](const std::string& name, int64_t row, float offset, float scale) {
    const std::vector<float> values = Values(weights, name, {row});
    for (size_t i = 0; i < values.size(); ++i) {
      const float expected = offset + scale * Number(name, uint64_t(row) * values.size() + i);
      ASSERT_EQ(values[i], expected) << name << " " << i;
    }
  };
  expect("token_embd.weight", 79, 0, 1);
  expect("output.weight", 3, 0, float(std::sqrt(3.0 / 96)));
  expect("blk.1.ffn_down.weight", 95, 0, float(std::sqrt(3.0 / 192)));
  expect("blk.1.attn_q.weight", 0, 0, float(std::sqrt(3.0 / 96)));
  expect("blk.0.attn_norm.weight", 0, 1, 0.1f);
  expect("blk.0.attn_k_norm.weight", 0, 1, 0.1f);
  expect("blk.1.attn_v.bias", 0, 0, 0.1f);
}

TEST(DummyWeights, CountersGoBeyond32Bits) {
  ModelConfig config = Small();
  config.hidden_size = 1 << 20, config.vocab_size = 1 << 20;
  const DummyWeights weights(config, DType::kF32, "config.json");
  const int64_t row = (1 << 20) - 1;
  const std::vector<float> values = Values(weights, "token_embd.weight", {row});
  for (size_t i = 0; i < values.size(); i += 997) {
    ASSERT_EQ(values[i], Number("token_embd.weight", uint64_t(row) * values.size() + i)) << i;
  }
}

TEST(DummyWeights, HalfPrecisionIsTheNearest) {
  const DummyWeights whole(Small(), DType::kF32, "c"), bf16(Small(), DType::kBF16, "c"), f16(Small(), DType::kF16, "c");
  for (const char* name : {"token_embd.weight", "blk.0.ffn_down.weight", "output_norm.weight"}) {
    const bool is_vector = whole.Find(name)->shape.size() == 1;
    const std::vector<int64_t> rows = is_vector ? std::vector<int64_t>{0} : std::vector<int64_t>{0, 1, 40};
    const auto exact = Values(whole, name, rows), brain = Values(bf16, name, rows), half = Values(f16, name, rows);
    for (size_t i = 0; i < exact.size(); ++i) {
      ASSERT_EQ(brain[i], BFloat16ToFloat(FloatToBFloat16(exact[i])));
      const float step = std::max(std::exp2(std::floor(std::log2(std::abs(exact[i]))) - 10), 0x1p-24f);
      const float nearest = std::nearbyint(exact[i] / step) * step;
      ASSERT_EQ(half[i], nearest) << exact[i];
    }
  }
}

TEST(DummyWeights, ARowMadeAloneIsThatOfTheWhole) {
  const DummyWeights weights(Small(), DType::kBF16, "config.json");
  std::vector<int64_t> rows(96);
  std::iota(rows.begin(), rows.end(), int64_t(0));
  const std::vector<float> whole = Values(weights, "blk.0.ffn_down.weight", rows);
  const std::vector<float> some = Values(weights, "blk.0.ffn_down.weight", {95, 7, 7});
  for (size_t i = 0; i < 192; ++i) {
    EXPECT_EQ(some[i], whole[95 * 192 + i]);
    EXPECT_EQ(some[192 + i], whole[7 * 192 + i]);
    EXPECT_EQ(some[2 * 192 + i], whole[7 * 192 + i]);
  }
  EXPECT_NE(Values(weights, "blk.1.ffn_down.weight", {7}), Values(weights, "blk.0.ffn_down.weight", {7}));
}

TEST(DummyWeights, TensorsAreThoseThatTheModelAsksFor) {
  for (const bool tied : {false, true}) {
    ModelConfig config = Small();
    config.tied_embeddings = tied;
    const DummyWeights weights(config, DType::kBF16, "config.json");
    config.tied_embeddings = !tied;
    const Status status = CheckModelTensors(weights, &config);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(config.tied_embeddings, tied);
  }
  const DummyWeights weights(Small(), DType::kBF16, "config.json");
  EXPECT_EQ(weights.Find("rope_freqs.weight"), nullptr);
  EXPECT_EQ(weights.Get("blk.2.attn_q.weight").status().message(),
            "config.json: expected tensor blk.2.attn_q.weight, found none");
}

// bench/configs: every model of the papers can be made up and split.
TEST(DummyWeights, ConfigurationsOfThePapersModels) {
  struct Case {
    const char* name;
    int64_t parameters;  // as their authors count them
    int most_ranks;
  };
  for (const Case& model :
       {Case{"SmolLM2-135M", 134515008, 9}, Case{"Qwen3-1.7B", 1720574976, 16}, Case{"Qwen3-4B", 4022468096, 32},
        Case{"DeepSeek-R1-Distill-Qwen-7B", 7615616512, 28}, Case{"Mistral-7B-Instruct-v0.3", 7248023552, 32},
        Case{"Llama-3-8B-Instruct", 8030261248, 32}, Case{"Llama-3-70B", 70553706496, 64}}) {
    const auto config = ReadHfConfig(std::string(WINNOW_GOLDEN_DIR) + "/../../bench/configs/" + model.name + ".json");
    ASSERT_TRUE(config.ok()) << config.status().message();
    ModelConfig checked = config->model;
    const DummyWeights weights(checked, DType::kBF16, model.name);
    EXPECT_TRUE(CheckModelTensors(weights, &checked).ok()) << model.name;
    EXPECT_EQ(weights.total_bytes(), 2 * model.parameters) << model.name;
    const ShardDims dims = ShardDimsOf(checked);
    for (const int ranks : {1, 2, 3, model.most_ranks}) {
      const auto plan = MakeShardPlan(dims, ranks);
      EXPECT_TRUE(plan.ok()) << model.name << ": " << plan.status().message();
    }
    EXPECT_FALSE(MakeShardPlan(dims, model.most_ranks + 1).ok()) << model.name;
    EXPECT_EQ(FfnSegmentColumns(dims), model.most_ranks == 9 ? 128 : 256) << model.name;
  }
}

}  // namespace
}  // namespace winnow
