// config.json of Hugging Face models: what is read, and everything that is refused by name.
#include "model/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Json Llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 256},
          {"intermediate_size", 512},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {"hidden_act", "silu"},
          {"max_position_embeddings", 4096},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"},
          {"vocab_size", 1000},
          {"eos_token_id", {1, 2}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"use_cache", true},
          {"rope_scaling", nullptr},
          {"mlp_bias", false},
          {"head_dim", nullptr}};
}
Json Llama(const Json& changes) {
  Json config = Llama();
  config.update(changes);
  return config;
}

HfConfig Read(const Json& config) {
  auto read = ParseHfConfig(config.dump(), "config.json");
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() ? *read : HfConfig();
}

void ExpectRefused(const std::string& text, const std::vector<std::string>& parts) {
  SCOPED_TRACE(text);
  const auto config = ParseHfConfig(text, "config.json");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), StatusCode::kBadFile);
  EXPECT_THAT(config.status().message(), testing::StartsWith("config.json: "));
  for (const std::string& part : parts) EXPECT_THAT(config.status().message(), HasSubstr(part));
}
void ExpectRefused(const Json& config, const std::vector<std::string>& parts) {
  ExpectRefused(config.dump(), parts);
}

TEST(HfConfig, ReadsALlama) {
  const HfConfig config = Read(Llama());
  EXPECT_EQ(config.model.architecture, "llama");
  EXPECT_EQ(config.model.hidden_size, 256);
  EXPECT_EQ(config.model.ffn_size, 512);
  EXPECT_EQ(config.model.num_layers, 2);
  EXPECT_EQ(config.model.num_query_heads, 8);
  EXPECT_EQ(config.model.num_kv_heads, 4);
  EXPECT_EQ(config.model.head_dim, 32);
  EXPECT_EQ(config.model.vocab_size, 1000);
  EXPECT_EQ(config.model.max_context, 4096);
  EXPECT_EQ(config.model.rms_epsilon, 1e-5f);
  EXPECT_EQ(config.model.rope_theta, 500000.0f);
  EXPECT_FALSE(config.model.permuted_qk_rows);
  EXPECT_FALSE(config.model.qkv_bias);
  EXPECT_FALSE(config.model.qk_norm);
  EXPECT_FALSE(config.model.tied_embeddings);
  EXPECT_EQ(config.eos_ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(config.dtype, DType::kBF16);
}

TEST(HfConfig, MissingKeysHaveTransformersDefaults) {
  Json config = Llama();
  for (const char* key : {"architectures", "num_key_value_heads", "rms_norm_eps", "rope_theta", "tie_word_embeddings",
                          "torch_dtype", "eos_token_id", "hidden_act"}) {
    config.erase(key);
  }
  const HfConfig read = Read(config);
  EXPECT_EQ(read.model.num_kv_heads, 8);
  EXPECT_EQ(read.model.rms_epsilon, 1e-6f);
  EXPECT_EQ(read.model.rope_theta, 10000.0f);
  EXPECT_FALSE(read.model.tied_embeddings);
  EXPECT_EQ(read.dtype, std::nullopt);
}

TEST(HfConfig, ModelTypesDifferInBiasesNormsAndHeads) {
  const HfConfig qwen2 = Read(Llama({{"model_type", "qwen2"},
                                     {"architectures", {"Qwen2ForCausalLM"}},
                                     {"use_sliding_window", false},
                                     {"sliding_window", 1024},
                                     {"max_window_layers", 1}}));
  EXPECT_TRUE(qwen2.model.qkv_bias);
  EXPECT_EQ(qwen2.model.architecture, "qwen2");
  const HfConfig qwen3 =
      Read(Llama({{"model_type", "qwen3"}, {"architectures", {"Qwen3ForCausalLM"}}, {"tie_word_embeddings", true}}));
  EXPECT_TRUE(qwen3.model.qk_norm);
  EXPECT_FALSE(qwen3.model.qkv_bias);
  EXPECT_EQ(qwen3.model.head_dim, 128);
  EXPECT_TRUE(qwen3.model.tied_embeddings);
  const Json mistral = {
      {"model_type", "mistral"}, {"architectures", {"MistralForCausalLM"}}, {"sliding_window", nullptr}};
  EXPECT_EQ(Read(Llama(mistral)).model.architecture, "llama");
}

TEST(HfConfig, ReadsRopeScalingInOldAndNewSpelling) {
  using Type = RopeScaling::Type;
  EXPECT_EQ(Read(Llama({{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}})).model.rope_scaling.type,
            Type::kLinear);
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 2048}};
  const RopeScaling scaling = Read(Llama({{"rope_scaling", llama3}})).model.rope_scaling;
  EXPECT_EQ(scaling.type, Type::kLlama3);
  EXPECT_EQ(scaling.factor, 8);
  EXPECT_EQ(scaling.original_context, 2048);
  Json parameters = llama3;
  parameters["rope_theta"] = 7000.0;
  Json config = Llama({{"rope_parameters", parameters}});
  config.erase("rope_theta");
  EXPECT_EQ(Read(config).model.rope_scaling.type, Type::kLlama3);
  EXPECT_EQ(Read(config).model.rope_theta, 7000.0f);
  const RopeScaling yarn =
      Read(Llama({{"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}}}}))
          .model.rope_scaling;
  EXPECT_EQ(yarn.type, Type::kYarn);
  EXPECT_NEAR(yarn.attention_factor, 1.1386294361, 1e-9);  // 0.1 ln 4 + 1
  EXPECT_EQ(yarn.beta_fast, 32);
  EXPECT_EQ(yarn.original_context, 1024);
  EXPECT_EQ(Read(Llama({{"rope_scaling", {{"rope_type", "default"}}}})).model.rope_scaling.type, Type::kNone);
}

TEST(HfConfig, RefusesRopeThatItWouldGetWrong) {
  const auto refuse = [](const Json& scaling, const std::vector<std::string>& parts) {
    ExpectRefused(Llama({{"rope_scaling", scaling}}), parts);
  };
  refuse({{"type", "dynamic"}, {"factor", 2}}, {"rope_scaling", "linear, llama3 or yarn", "\"dynamic\""});
  refuse({{"rope_type", "longrope"}}, {"\"longrope\""});
  refuse({{"factor", 2}}, {"rope_type", "found none"});
  refuse({{"type", "linear"}}, {"factor", "found none"});
  refuse({{"type", "linear"}, {"factor", 0.5}}, {"factor", "0.5"});
  refuse({{"type", "linear"}, {"rope_type", "yarn"}, {"factor", 2}}, {"the same as rope_type"});
  refuse({{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 1}}, {"high_freq_factor"});
  refuse({{"type", "yarn"}, {"factor", 2}, {"mscale", 0.7}}, {"\"mscale\""});
  refuse({{"type", "yarn"}, {"factor", 2}, {"truncate", false}}, {"truncate"});
  ExpectRefused(Llama({{"rope_theta", 1}, {"rope_scaling", {{"type", "yarn"}, {"factor", 2}}}}),
                {"rope_theta", "more than 1 with yarn"});
  refuse(Json::array(), {"an object"});
  ExpectRefused(Llama({{"rope_theta", 0}}), {"rope_theta", "1 to 1e12", "0"});
  ExpectRefused(Llama({{"partial_rotary_factor", 0.5}}), {"partial_rotary_factor", "0.5"});
  ExpectRefused(Llama({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}}}), {"rope_theta"});
  ExpectRefused(Llama({{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}}), {"rope_type"});
}

TEST(HfConfig, RefusesWhatWouldChangeTheMathematicsByName) {
  const auto refuse = [](const char* key, const Json& value, const std::vector<std::string>& parts) {
    std::vector<std::string> all = parts;
    all.push_back(key);
    ExpectRefused(Llama({{key, value}}), all);
  };
  refuse("model_type", "gemma", {"llama, mistral, qwen2 or qwen3", "\"gemma\""});
  refuse("model_type", nullptr, {"found null"});
  refuse("architectures", {"LlamaForSequenceClassification"}, {"LlamaForCausalLM alone"});
  refuse("hidden_act", "gelu", {"silu", "\"gelu\""});
  refuse("attention_bias", true, {"biases of attention"});
  refuse("mlp_bias", true, {"biases of the FFN"});
  refuse("sliding_window", 512, {"null", "512"});
  refuse("use_sliding_window", true, {"false"});
  refuse("layer_types", {"full_attention", "sliding_attention"}, {"full_attention for all of the 2 layers"});
  refuse("layer_types", {"full_attention"}, {"2 layers"});
  refuse("quantization_config", Json::object(), {"quantised checkpoint"});
  refuse("auto_map", Json::object(), {"code of its own"});
  refuse("num_experts", 8, {"no experts"});
  refuse("num_local_experts", 8, {"no experts"});
  refuse("torch_dtype", "float8_e4m3fn", {"bfloat16"});
  refuse("rope_interleaved", true, {"false"});
  refuse("logit_scale", 2, {"does not know \"logit_scale\""});
  refuse("use_qk_norm", false, {"does not know"});
  EXPECT_TRUE(ParseHfConfig(Llama({{"logit_scale", nullptr}}).dump(), "c").ok());
  Json mistral =
      Llama({{"model_type", "mistral"}, {"architectures", {"MistralForCausalLM"}}, {"max_position_embeddings", 32768}});
  ExpectRefused(mistral, {"sliding_window", "4096, Mistral's default"});
}

TEST(HfConfig, RefusesSizesThatDoNotFit) {
  ExpectRefused(Llama({{"hidden_size", 100}}), {"hidden_size", "multiple of 32", "100"});
  ExpectRefused(Llama({{"hidden_size", -32}}), {"hidden_size", "-32"});
  ExpectRefused(Llama({{"hidden_size", 18446744073709551615ull}}), {"hidden_size"});
  ExpectRefused(Llama({{"hidden_size", 256.0}}), {"hidden_size", "whole number"});
  ExpectRefused(Llama({{"hidden_size", "256"}}), {"hidden_size", "\"256\""});
  ExpectRefused(Llama({{"num_hidden_layers", 0}}), {"num_hidden_layers"});
  ExpectRefused(Llama({{"num_key_value_heads", 3}}), {"num_attention_heads", "3 KV heads"});
  ExpectRefused(Llama({{"num_attention_heads", 7}, {"num_key_value_heads", 7}}), {"hidden_size", "7 attention heads"});
  ExpectRefused(Llama({{"head_dim", 24}}), {"head_dim", "multiple of 32"});
  ExpectRefused(Llama({{"rms_norm_eps", 0}}), {"rms_norm_eps"});
  ExpectRefused(Llama({{"eos_token_id", {1, -2}}}), {"eos_token_id"});
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                          "max_position_embeddings"}) {
    Json config = Llama();
    config.erase(key);
    ExpectRefused(config, {key, "found none"});
  }
}

TEST(HfConfig, RefusesWhatIsNoJsonObjectOfUniqueKeys) {
  ExpectRefused(std::string("{\"model_type\": \"llama\", \"model_type\": \"qwen2\"}"), {"\"model_type\" twice"});
  ExpectRefused(std::string("[]"), {"object"});
  ExpectRefused(std::string("{"), {"JSON"});
  ExpectRefused(std::string(100000, '['), {"64 levels"});
}

}  // namespace
}  // namespace winnow
