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
  EXPECT_THAT(ErrorOf([](TinyModel* m) { m->architecture = "gemma2"; }),
              HasSubstr("expected llama (Mistral's too), qwen2 or qwen3, found gemma2"));
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
  EXPECT_THAT(with_uint("attention.sliding_window", 255),
              HasSubstr("sliding_window: expected none or 0 (winnow attends to all earlier tokens), found 255"));
  EXPECT_THAT(with_float("rope.scaling.factor", 0.5f), HasSubstr("rope.scaling.factor: expected 1 or more"));
  EXPECT_THAT(with_float("rope.scaling.attn_factor", 1.5f), HasSubstr("attn_factor: expected none or 1, found 1.5"));
  EXPECT_THAT(with_float("rope.scaling.yarn_log_multiplier", 0.1f), HasSubstr("yarn_log_multiplier: expected none or"));
  EXPECT_THAT(with_float("rope.scaling.yarn_ext_factor", 1), HasSubstr("yarn_ext_factor: expected none or 0, found 1"));
  EXPECT_THAT(with_float("attention.layer_norm_rms_epsilon", 0), HasSubstr("expected more than 0"));
  EXPECT_THAT(with_float("attention.layer_norm_rms_epsilon", std::nanf("")), HasSubstr("expected more than 0"));
  EXPECT_THAT(with_float("rope.freq_base", -1), HasSubstr("rope.freq_base: expected 1 to 1e+12"));
  EXPECT_THAT(with_float("logit_scale", 2), HasSubstr("llama.logit_scale: winnow does not support"));
  EXPECT_THAT(ErrorOf([](TinyModel* m) {
                m->add = [](GgufWriter* w) { w->AddString("llama.rope.scaling.type", "longrope"); };
              }),
              HasSubstr("rope.scaling.type: expected none, linear or yarn, found longrope"));
  EXPECT_THAT(
      ErrorOf([](TinyModel* m) { m->add = [](GgufWriter* w) { w->AddBool("llama.attention.causal", false); }; }),
      HasSubstr("expected causal attention"));
  EXPECT_EQ(with_uint("expert_count", 0), "no error");
  EXPECT_EQ(with_float("rope.scaling.factor", 1), "no error");
  EXPECT_EQ(with_uint("attention.sliding_window", 256), "no error");  // of a context of 256: hides nothing
}

// The same model as another architecture.
void Rename(TinyModel* model, const std::string& architecture) {
  model->architecture = architecture;
  const auto rename = [&](const auto& from) {
    auto to = from;
    to.clear();
    for (const auto& [key, value] : from) to[architecture + key.substr(key.find('.'))] = value;
    return to;
  };
  model->sizes = rename(model->sizes);
  model->floats = rename(model->floats);
}

TEST(ModelConfig, Qwen2HasBiasesOfQueriesKeysAndValuesAndRowsAsTheyAre) {
  const auto make = [](TinyModel* m) {
    Rename(m, "qwen2");
    for (const char* block : {"blk.0.", "blk.1."}) {
      m->tensors[std::string(block) + "attn_q.bias"] = {kHeads * kHeadDim};
      m->tensors[std::string(block) + "attn_k.bias"] = {kKvHeads * kHeadDim};
      m->tensors[std::string(block) + "attn_v.bias"] = {kKvHeads * kHeadDim};
    }
  };
  const Result<ModelConfig> config = Read(make);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->architecture, "qwen2");
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->qk_norm);
  EXPECT_FALSE(config->permuted_qk_rows);
  EXPECT_THAT(ErrorOf([&](TinyModel* m) {
                make(m);
                m->tensors.erase("blk.1.attn_k.bias");
              }),
              HasSubstr("tensor blk.1.attn_k.bias: expected shape [64], found no such tensor"));
  EXPECT_THAT(ErrorOf([&](TinyModel* m) {
                make(m);
                m->tensors.erase("blk.1.attn_k.bias");
                m->tensors.erase("output_norm.weight");
              }),
              HasSubstr("2 tensors are missing: blk.1.attn_k.bias output_norm.weight"));
  EXPECT_THAT(ErrorOf([&](TinyModel* m) {
                make(m);
                m->tensors["blk.1.attn_output.bias"] = {kHidden};
              }),
              HasSubstr("blk.1.attn_output.bias: expected no bias but those of q, k and v"));
}

TEST(ModelConfig, Qwen3HasNormsOfQueriesAndKeys) {
  const auto make = [](TinyModel* m) {
    Rename(m, "qwen3");
    for (const char* block : {"blk.0.", "blk.1."}) {
      m->tensors[std::string(block) + "attn_q_norm.weight"] = {kHeadDim};
      m->tensors[std::string(block) + "attn_k_norm.weight"] = {kHeadDim};
    }
  };
  const Result<ModelConfig> config = Read(make);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_TRUE(config->qk_norm);
  EXPECT_FALSE(config->qkv_bias);
  EXPECT_FALSE(config->permuted_qk_rows);
  EXPECT_THAT(ErrorOf([&](TinyModel* m) {
                make(m);
                m->tensors["blk.0.attn_q_norm.weight"] = {kHeads * kHeadDim};
              }),
              HasSubstr("tensor blk.0.attn_q_norm.weight: expected shape [32], found [128]"));
}

TEST(ModelConfig, ReadsRopeScaling) {
  const auto read = [](const std::function<void(GgufWriter*)>& add) {
    const Result<ModelConfig> config = Read([&](TinyModel* m) { m->add = add; });
    EXPECT_TRUE(config.ok()) << config.status().message();
    return config->rope_scaling;
  };
  const RopeScaling linear = read([](GgufWriter* w) { w->AddFloat32("llama.rope.scale_linear", 4); });
  EXPECT_EQ(linear.type, RopeScaling::Type::kLinear);
  EXPECT_EQ(linear.factor, 4);
  const RopeScaling none = read([](GgufWriter* w) {
    w->AddString("llama.rope.scaling.type", "none");
    w->AddFloat32("llama.rope.scaling.factor", 4);
  });
  EXPECT_EQ(none.type, RopeScaling::Type::kNone);
  const RopeScaling yarn = read([](GgufWriter* w) {
    w->AddString("llama.rope.scaling.type", "yarn");
    w->AddFloat32("llama.rope.scaling.factor", 4);
    w->AddFloat32("llama.rope.scaling.attn_factor", 0.5f);
    w->AddFloat32("llama.rope.scaling.yarn_beta_fast", 16);
    w->AddUint32("llama.rope.scaling.original_context_length", 64);
  });
  EXPECT_EQ(yarn.type, RopeScaling::Type::kYarn);
  EXPECT_EQ(yarn.factor, 4);
  EXPECT_EQ(yarn.original_context, 64);
  EXPECT_EQ(yarn.beta_fast, 16);
  EXPECT_EQ(yarn.beta_slow, 1);
  EXPECT_NEAR(yarn.attention_factor, 0.5 * (0.1 * std::log(4.0) + 1), 1e-15);
  const auto refused = [](const char* key, float value) {
    return ErrorOf([&](TinyModel* m) {
      m->add = [&](GgufWriter* w) {
        w->AddString("llama.rope.scaling.type", "yarn");
        w->AddFloat32(std::string("llama.rope.scaling.") + key, value);
      };
    });
  };
  EXPECT_THAT(refused("yarn_beta_fast", 1), HasSubstr("yarn_beta_fast: expected more than yarn_beta_slow"));
  EXPECT_THAT(refused("attn_factor", 0), HasSubstr("attn_factor: expected 0.001 to 1000, found 0"));
  EXPECT_THAT(refused("yarn_log_multiplier", 0.1f), HasSubstr("yarn_log_multiplier: expected none or 0"));
}

TEST(ModelConfig, ReadsTheFactorsOfRopeFrequencies) {
  const auto make = [](float last, DType dtype) {
    TinyModel model;
    model.add = [=](GgufWriter* w) {
      std::vector<float> factors(kHeadDim / 2, 1.0f);
      factors.back() = last;
      if (dtype == DType::kF32) w->AddFloatTensor("rope_freqs.weight", {kHeadDim / 2}, factors);
      if (dtype == DType::kF16) w->AddTensor("rope_freqs.weight", dtype, {16}, std::vector<uint8_t>(32, 1));
    };
    return ReadModelConfig(GgufFile::FromBytes("tiny.gguf", model.Build()).value());
  };
  const Result<ModelConfig> config = make(8, DType::kF32);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->rope_scaling.type, RopeScaling::Type::kFactors);
  ASSERT_EQ(config->rope_scaling.factors.size(), size_t(kHeadDim / 2));
  EXPECT_EQ(config->rope_scaling.factors.front(), 1);
  EXPECT_EQ(config->rope_scaling.factors.back(), 8);
  for (const float bad : {0.0f, -1.0f, std::nanf(""), HUGE_VALF}) {
    EXPECT_THAT(make(bad, DType::kF32).status().message(), HasSubstr("expected factors of 1e-6 to 1e6"));
  }
  EXPECT_THAT(make(8, DType::kF16).status().message(), HasSubstr("rope_freqs.weight: expected F32, found F16"));
  EXPECT_THAT(ErrorOf([](TinyModel* m) {
                m->floats["llama.rope.scaling.factor"] = 2;
                m->tensors["rope_freqs.weight"] = {kHeadDim / 2};
              }),
              HasSubstr("rope_freqs.weight: expected none beside another RoPE scaling"));
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
  EXPECT_THAT(error("rope_freqs.weight"), HasSubstr("rope_freqs.weight: expected shape [16], found [32]"));
  EXPECT_THAT(error("blk.0.attn_q.bias"), HasSubstr("blk.0.attn_q.bias: expected no bias but those of q, k and v"));
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
