// The whole engine, evictions included, against double arithmetic that knows nothing of pages, chunks or slots
// (tests/support/naive_llama.h).
#include <gtest/gtest.h>

#include <cmath>

#include "engine/leader.h"
#include "engine/rank_engine.h"
#include "model/dummy_weights.h"
#include "tests/support/gguf_copy.h"
#include "tests/support/naive_llama.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

// No rounding but float's is left: F32 weights and cache, activations in float.
const EngineOptions kFloat{.backend = "reference-float", .kv_cache_dtype = DType::kF32, .pool_slots = 512};
constexpr TinyModelSpec kSmall{
    .num_query_heads = 4, .num_kv_heads = 2, .ffn_size = 256, .weights = DType::kF32, .embeddings = DType::kF32};

std::vector<int32_t> Text(int32_t count) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back((i * i * 31 + 7 * i + 3) % 256);
  return tokens;
}

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<std::vector<float>> logits;  // that each token was drawn from
};

struct Model {
  GgufFile file;
  ModelConfig config;
};

Answer Run(const Model& model, const Request& request, int64_t max_num_batched_tokens) {
  Answer answer;
  const auto communicator = MakeLocalCommunicator();
  const auto engine = RankEngine::Make(model.file, model.config, kFloat, *communicator, nullptr).value();
  engine->runner().set_logits_observer([&](const StepPlan& plan, std::span<const float> logits) {
    if (plan.items[0].sample) answer.logits.emplace_back(logits.begin(), logits.end());
  });
  Leader leader(engine->runner(), *communicator,
                {.max_num_batched_tokens = max_num_batched_tokens, .pool_slots = kFloat.pool_slots});
  EXPECT_TRUE(leader.Submit(request).ok());
  const Status status = leader.Run({.on_token = nullptr, .on_completion = [&](const Completion& completion) {
                                      answer.tokens = completion.token_ids;
                                    }});
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(engine->pool().num_used(), 0) << "pages are lost";
  return answer;
}

void ExpectNaiveLogits(const Model& model, const NaiveEviction& eviction, int64_t chunk) {
  Request request;
  request.prompt = Text(50);
  request.max_tokens = 30;
  if (eviction.budget > 0) {
    request.eviction = {.policy = "streaming-llm",
                        .budget = eviction.budget,
                        .interval = eviction.interval,
                        .sink_tokens = eviction.sink_tokens,
                        .recent_tokens = 4};
  }
  const Answer answer = Run(model, request, chunk);
  ASSERT_EQ(answer.logits.size(), 30u);
  std::vector<int32_t> tokens = request.prompt;
  tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end());
  const auto expected = NaiveLlama(model.file, model.config).Logits(tokens, eviction);
  for (size_t i = 0; i < answer.logits.size(); ++i) {
    const auto& naive = expected[request.prompt.size() - 1 + i];
    ASSERT_EQ(answer.logits[i].size(), naive.size());
    // Logits are a few units; errors of float, grown over two layers, stay below 1e-4.
    for (size_t id = 0; id < naive.size(); ++id) {
      ASSERT_NEAR(answer.logits[i][id], naive[id], 1e-3) << "token " << i << " of the answer, id " << id;
    }
  }
}

void ExpectNaiveLogits(const TinyModelSpec& spec, const NaiveEviction& eviction, int64_t chunk) {
  TinyModel model(spec);
  ExpectNaiveLogits(Model{std::move(model.file), model.config}, eviction, chunk);
}

// Biases, norms of queries and keys, heads that are no part of the hidden size, scaled RoPE: evictions leave each key
// where its position put it.
TEST(EngineAgainstNaive, LogitsOfOtherArchitecturesAfterEvictions) {
  using Type = RopeScaling::Type;
  struct Case {
    const char* architecture;
    Type type;
  };
  for (const auto& [architecture, type] : {Case{"llama", Type::kLlama3}, Case{"qwen2", Type::kYarn},
                                           Case{"qwen3", Type::kLinear}, Case{"qwen3", Type::kNone}}) {
    ModelConfig config;
    config.architecture = architecture;
    config.hidden_size = 96, config.num_layers = 2, config.num_query_heads = 4, config.num_kv_heads = 2;
    config.head_dim = 32, config.ffn_size = 256, config.vocab_size = 256, config.max_context = 4096;
    config.rms_epsilon = 1e-6f, config.rope_theta = 10000;
    config.qkv_bias = config.architecture == "qwen2", config.qk_norm = config.architecture == "qwen3";
    config.rope_scaling = {.type = type, .factor = 4, .original_context = 256};
    if (type == Type::kYarn) config.rope_scaling.attention_factor = 1.2;
    const DummyWeights weights(config, DType::kF32, "config.json");
    auto file = GgufFile::FromBytes(architecture, GgufCopyOf(weights, config));
    ASSERT_TRUE(file.ok()) << file.status().message();
    ModelConfig read = ReadModelConfig(*file).value();
    read.rope_scaling = config.rope_scaling;  // the file has llama3's as a factor for each frequency
    ExpectNaiveLogits(Model{std::move(*file), read}, {.budget = 20, .interval = 6, .sink_tokens = 3}, 7);
  }
}

TEST(EngineAgainstNaive, LogitsOfAFullCache) {
  ExpectNaiveLogits(kSmall, {}, 512);
}
TEST(EngineAgainstNaive, LogitsOfAPromptInChunks) {
  ExpectNaiveLogits(kSmall, {}, 7);
}
TEST(EngineAgainstNaive, LogitsAfterEvictionsInPromptAndAnswer) {
  ExpectNaiveLogits(kSmall, {.budget = 20, .interval = 6, .sink_tokens = 3}, 512);
}
TEST(EngineAgainstNaive, LogitsAfterEvictionsDoNotDependOnChunks) {
  ExpectNaiveLogits(kSmall, {.budget = 20, .interval = 6, .sink_tokens = 3}, 5);
}
TEST(EngineAgainstNaive, LogitsWithAnEvictionEveryToken) {
  ExpectNaiveLogits(kSmall, {.budget = 17, .interval = 1, .sink_tokens = 0}, 64);
}
TEST(EngineAgainstNaive, LogitsOfQuantisedWeightsAndAnUntiedHead) {
  TinyModelSpec spec = kSmall;
  spec.weights = DType::kQ4_1;
  spec.embeddings = DType::kQ8_0;
  spec.tied_embeddings = false;
  ExpectNaiveLogits(spec, {.budget = 20, .interval = 6, .sink_tokens = 3}, 64);
}

}  // namespace
}  // namespace winnow
