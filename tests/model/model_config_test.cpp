#include "model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "base/philox.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_vocabulary.h"

namespace winnow {
namespace {

using ::testing::HasSubstr;

constexpr int kHidden = 128, kHeads = 4, kKvHeads = 2, kHeadDim = 32, kFfn = 128, kLayers = 2;

// A model of two layers; every test changes one thing.
struct TinyModel {
  std::string architecture = "llama";
  std::string name = "tiny";
  std::map<std::string, uint32_t> sizes = {
      {"llama.block_count", kLayers},          {"llama.context_length", 256},
      {"llama.embedding_length", kHidden},     {"llama.feed_forward_length", kFfn},
      {"llama.attention.head_count", kHeads},  {"llama.attention.head_count_kv", kKvHeads},
      {"llama.rope.dimension_count", kHeadDim}};
  std::map<std::string, float> floats = {{"llama.rope.freq_base", 10000.0f},
                                         {"llama.attention.layer_norm_rms_epsilon", 1e-5f}};
  std::map<std::string, std::vector<int64_t>> tensors;
  std::function<void(GgufWriter*)> add = [](GgufWriter*) {};

  TinyModel() {
    tensors["token_embd.weight"] = {kHidden, int64_t(TinyVocabulary().tokens.size())};
    tensors["output_norm.weight"] = {kHidden};
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      tensors[block + "attn_norm.weight"] = {kHidden};
      tensors[block + "attn_q.weight"] = {kHidden, kHeads * kHeadDim};
      tensors[block + "attn_k.weight"] = {kHidden, kKvHeads * kHeadDim};
      tensors[block + "attn_v.weight"] = {kHidden, kKvHeads * kHeadDim};
      tensors[block + "attn_output.weight"] = {kHeads * kHeadDim, kHidden};
      tensors[block + "ffn_norm.weight"] = {kHidden};
      tensors[block + "ffn_gate.weight"] = {kHidden, kFfn};
      tensors[block + "ffn_up.weight"] = {kHidden, kFfn};
      tensors[block + "ffn_down.weight"] = {kFfn, kHidden};
    }
  }

  std::vector<uint8_t> Build() const {
    GgufWriter writer;
    writer.AddString("general.architecture", architecture);
    writer.AddString("general.name", name);
    for (const auto& [key, value] : sizes) writer.AddUint32(key, value);
    for (const auto& [key, value] : floats) writer.AddFloat32(key, value);
    TinyVocabulary().AddTo(&writer);
    add(&writer);
    for (const auto& [tensor, shape] : tensors) {
      int64_t count = 1;
      for (const int64_t size : shape) count *= size;
      writer.AddTensor(tensor, DType::kF16, shape, std::vector<uint8_t>(size_t(count) * 2, 0));
    }
    return writer.Build();
  }
};

Result<ModelConfig> Read(const std::function<void(TinyModel*)>& change) {
  TinyModel model;
  change(&model);
  const Result<GgufFile> file = GgufFile::FromBytes("tiny.gguf", model.Build());
  if (!file.ok()) return file.status();
  return ReadModelConfig(*file);
}

std::string ErrorOf(const std::function<void(TinyModel*)>& change) {
  const Result<ModelConfig> config = Read(change);
  if (config.ok()) return "no error";
  EXPECT_EQ(config.status().code(), StatusCode::kBadFile);
  EXPECT_THAT(config.status().message(), HasSubstr("tiny.gguf"));
  return config.status().message();
}

TEST(ModelConfig, ReadsALlamaModel) {
  const Result<ModelConfig> config = Read([](TinyModel*) {});
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->name, "tiny");
  EXPECT_EQ(config->hidden_size, kHidden);
  EXPECT_EQ(config->num_layers, kLayers);
  EXPECT_EQ(config->num_query_heads, kHeads);
  EXPECT_EQ(config->num_kv_heads, kKvHeads);
  EXPECT_EQ(config->head_dim, kHeadDim);
  EXPECT_EQ(config->ffn_size, kFfn);
  EXPECT_EQ(config->vocab_size, int(TinyVocabulary().tokens.size()));
  EXPECT_EQ(config->max_context, 256);
  EXPECT_EQ(config->rms_epsilon, 1e-5f);
  EXPECT_EQ(config->rope_theta, 10000.0f);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_TRUE(config->permuted_qk_rows);
}

TEST(ModelConfig, ANameOfOtherBytesThanUtf8IsRepaired) {
  const Result<ModelConfig> config = Read([](TinyModel* m) { m->name = "caf\xe9 \xe2\x82"; });
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->name, "caf\ufffd \ufffd");
}

TEST(ModelConfig, FillsInWhatAFileMayLeaveOut) {
  const Result<ModelConfig> config = Read([](TinyModel* m) {
    m->sizes.erase("llama.attention.head_count_kv");
    m->sizes.erase("llama.rope.dimension_count");
    m->floats.erase("llama.rope.freq_base");
    for (const char* name :
         {"blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.1.attn_k.weight", "blk.1.attn_v.weight"}) {
      m->tensors[name] = {kHidden, kHidden};
    }
    m->tensors["output.weight"] = m->tensors["token_embd.weight"];
  });
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->num_kv_heads, kHeads);
  EXPECT_EQ(config->head_dim, kHeadDim);
  EXPECT_EQ(config->rope_theta, 10000.0f);
  EXPECT_FALSE(config->tied_embeddings);
}

TEST(ModelConfig, TakesAHeadSizeOfItsOwn) {
  const Result<ModelConfig> config = Read([](TinyModel* m) {
    for (const char* key : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
      m->sizes[std::string("llama.") + key] = 64;
    }
    for (auto& [name, shape] : m->tensors) {
      if (name.ends_with("attn_q.weight")) shape = {kHidden, kHeads * 64};
      if (name.ends_with("attn_k.weight") || name.ends_with("attn_v.weight")) shape = {kHidden, kKvHeads * 64};
      if (name.ends_with("attn_output.weight")) shape = {kHeads * 64, kHidden};
    }
  });
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->head_dim, 64);
}

TEST(ModelConfig, RefusesOtherArchitecturesByName) {
  EXPECT_THAT(ErrorOf([](TinyModel* m) { m->architecture = "qwen2"; }), HasSubstr("expected llama, found qwen2"));
}

TEST(ModelConfig, RefusesEveryMissingOrZeroSize) {
  for (const char* key :
       {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"}) {
    const std::string name = std::string("llama.") + key;
    EXPECT_THAT(ErrorOf([&](TinyModel* m) { m->sizes.erase(name); }), HasSubstr("expected metadata key " + name));
    EXPECT_THAT(ErrorOf([&](TinyModel* m) { m->sizes[name] = 0; }), HasSubstr(name + ": expected 1 to"));
    EXPECT_NE(ErrorOf([&](TinyModel* m) { m->sizes[name] = 0xffffffff; }), "no error");
  }
  EXPECT_THAT(ErrorOf([](TinyModel* m) { m->floats.erase("llama.attention.layer_norm_rms_epsilon"); }),
              HasSubstr("expected metadata key llama.attention.layer_norm_rms_epsilon"));
}

TEST(ModelConfig, RefusesSizesThatDoNotFitTogether) {
  const auto error = [](const char* key, uint32_t value) {
    return ErrorOf([=](TinyModel* m) { m->sizes[std::string("llama.") + key] = value; });
  };
  EXPECT_THAT(error("embedding_length", 72), HasSubstr("embedding_length: expected a multiple of 32, found 72"));
  EXPECT_THAT(error("feed_forward_length", 96), HasSubstr("feed_forward_length: expected a multiple of 64, found 96"));
  EXPECT_THAT(error("attention.head_count_kv", 3), HasSubstr("head_count: expected a multiple of 3, found 4"));
  EXPECT_THAT(error("attention.head_count", 6), HasSubstr("expected a multiple of the 6 query heads, found 128"));
  EXPECT_THAT(error("attention.head_count", 8), HasSubstr("rope.dimension_count: expected the head size 16, found 32"));
  EXPECT_THAT(error("rope.dimension_count", 8), HasSubstr("rope.dimension_count: expected the head size 32, found 8"));
  EXPECT_THAT(error("attention.value_length", 64), HasSubstr("value_length: expected the head size 32, found 64"));
  EXPECT_THAT(ErrorOf([](TinyModel* m) {
                m->sizes["llama.attention.key_length"] = 16;
                m->sizes["llama.rope.dimension_count"] = 16;
              }),
              HasSubstr("multiple of 32, found 16"));
  EXPECT_THAT(error("vocab_size", 100), HasSubstr("llama.vocab_size: expected the"));
}

TEST(ModelConfig, RefusesWhatItWouldComputeWrongly) {
  const auto with_uint = [](const char* key, uint32_t value) {
    return ErrorOf([=](TinyModel* m) { m->sizes[std::string("llama.") + key] = value; });
  };
  const auto with_float = [](const char* key, float value) {
    return ErrorOf([=](TinyModel* m) { m->floats[std::string("llama.") + key] = value; });
  };
  EXPECT_THAT(with_uint("expert_count", 8), HasSubstr("llama.expert_count: expected none or 0, found 8"));
  EXPECT_THAT(with_uint("attention.sliding_window", 4096), HasSubstr("sliding_window: expected none or 0, found 4096"));
  EXPECT_THAT(with_float("rope.scaling.factor", 4), HasSubstr("rope.scaling.factor: expected none or 1"));
  EXPECT_THAT(with_float("rope.scale_linear", 4), HasSubstr("rope.scale_linear: expected none or 1"));
  EXPECT_THAT(with_float("attention.layer_norm_rms_epsilon", 0), HasSubstr("expected more than 0"));
  EXPECT_THAT(with_float("attention.layer_norm_rms_epsilon", std::nanf("")), HasSubstr("expected more than 0"));
  EXPECT_THAT(with_float("rope.freq_base", -1), HasSubstr("rope.freq_base: expected 1 to 1e12"));
  EXPECT_THAT(with_float("logit_scale", 2), HasSubstr("llama.logit_scale: winnow does not support"));
  EXPECT_THAT(
      ErrorOf([](TinyModel* m) { m->add = [](GgufWriter* w) { w->AddString("llama.rope.scaling.type", "yarn"); }; }),
      HasSubstr("rope.scaling.type: expected no RoPE scaling, found yarn"));
  EXPECT_THAT(
      ErrorOf([](TinyModel* m) { m->add = [](GgufWriter* w) { w->AddBool("llama.attention.causal", false); }; }),
      HasSubstr("expected causal attention"));
  EXPECT_EQ(with_uint("expert_count", 0), "no error");
  EXPECT_EQ(with_float("rope.scaling.factor", 1), "no error");
}

TEST(ModelConfig, RefusesEveryTensorThatIsMissingOrOfAnotherShape) {
  for (const auto& [name, shape] : TinyModel().tensors) {
    const std::string missing = ErrorOf([&](TinyModel* m) { m->tensors.erase(name); });
    EXPECT_THAT(missing, HasSubstr("tensor " + name)) << name;
    EXPECT_THAT(missing, HasSubstr("found no")) << name;
    const std::string longer = ErrorOf([&](TinyModel* m) { m->tensors[name].back() += 32; });
    // One row more of the embedding is seen as one token more than the tokenizer has.
    EXPECT_THAT(longer, HasSubstr(name == "token_embd.weight" ? "rows of token_embd.weight" : "tensor " + name))
        << name;
    const std::string flat = ErrorOf([&](TinyModel* m) { m->tensors[name].push_back(2); });
    EXPECT_THAT(flat, HasSubstr("tensor " + name + ": expected")) << name;
  }
}

TEST(ModelConfig, RefusesTensorsItWouldNotUse) {
  const auto error = [](const char* name) { return ErrorOf([=](TinyModel* m) { m->tensors[name] = {32}; }); };
  EXPECT_THAT(error("rope_freqs.weight"),
              HasSubstr("rope_freqs.weight: expected no RoPE scaling, found the factors of"));
  EXPECT_THAT(error("blk.0.attn_q.bias"), HasSubstr("blk.0.attn_q.bias: expected a model without biases"));
  EXPECT_THAT(error("blk.2.attn_norm.weight"), HasSubstr("tensor blk.2.attn_norm.weight"));
  EXPECT_THAT(error("blk.0.attn_q_norm.weight"), HasSubstr("winnow does not know what this tensor is for"));
}

TEST(ModelConfig, SurvivesFlippedBytes) {
  const std::vector<uint8_t> whole = TinyModel().Build();
  // Metadata and tensor table come first; flips in the weights would change nothing.
  constexpr uint32_t kHeaderBytes = 8000;
  constexpr uint32_t kNumTrials = 1000;
  int num_valid = 0;
  for (uint32_t trial = 0; trial < kNumTrials; ++trial) {
    std::vector<uint8_t> bytes = whole;
    const PhiloxBlock random = Philox(6, {trial, 0, 0, 0});
    bytes[random[0] % kHeaderBytes] = uint8_t(random[1]);
    const Result<GgufFile> file = GgufFile::FromBytes("tiny.gguf", bytes);
    if (!file.ok()) continue;
    const Result<ModelConfig> config = ReadModelConfig(*file);
    if (config.ok()) ++num_valid;
  }
  EXPECT_GT(num_valid, 0);
  EXPECT_LT(num_valid, int(kNumTrials));
}

TEST(ModelConfig, ReadsTheRealModel) {
  const char* path = std::getenv("WINNOW_MODEL");
  if (path == nullptr) GTEST_SKIP() << "WINNOW_MODEL is not set";
  const Result<GgufFile> file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Result<ModelConfig> config = ReadModelConfig(*file);
  ASSERT_TRUE(config.ok()) << config.status().message();
  if (config->hidden_size != 576) GTEST_SKIP() << "WINNOW_MODEL is not SmolLM2-135M";
  EXPECT_EQ(config->num_layers, 30);
  EXPECT_EQ(config->num_query_heads, 9);
  EXPECT_EQ(config->num_kv_heads, 3);
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->ffn_size, 1536);
  EXPECT_EQ(config->vocab_size, 49152);
  EXPECT_EQ(config->max_context, 8192);
  EXPECT_EQ(config->rope_theta, 100000.0f);
  EXPECT_TRUE(config->tied_embeddings);
}

}  // namespace
}  // namespace winnow
