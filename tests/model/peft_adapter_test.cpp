// Adapters as PEFT writes them: what is read, and every way in which configuration, tensors and model can contradict
// each other.
#include "model/peft_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/hf_directory.h"
#include "tests/support/temporary_path.h"

namespace winnow {
namespace {

using testing::HasSubstr;

constexpr int64_t kHidden = 96, kQ = 64, kKv = 32, kRank = 4;

ModelConfig SmallModel() {
  ModelConfig model;
  model.num_layers = 2;
  model.hidden_size = int(kHidden);
  model.num_query_heads = 2;
  model.num_kv_heads = 1;
  model.head_dim = 32;
  model.ffn_size = 128;
  return model;
}

class PeftAdapterTest : public testing::Test {
 protected:
  struct Factor {
    SafetensorsType type = SafetensorsType::kF32;
    std::vector<int64_t> shape;
  };
  PeftAdapterTest() {
    config_ = {{"peft_type", "LORA"},  {"task_type", "CAUSAL_LM"},
               {"r", kRank},           {"lora_alpha", 16},
               {"bias", "none"},       {"target_modules", {"q_proj", "v_proj"}},
               {"lora_dropout", 0.05}, {"base_model_name_or_path", "some/model"},
               {"use_dora", false},    {"rank_pattern", nlohmann::json::object()},
               {"revision", nullptr},  {"init_lora_weights", true}};
    for (int layer = 0; layer < 2; ++layer) {
      AddPair(layer, "q_proj", kQ);
      AddPair(layer, "v_proj", kKv);
    }
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  static std::string NameOf(int layer, const std::string& module, char factor) {
    return "base_model.model.model.layers." + std::to_string(layer) + ".self_attn." + module + ".lora_" + factor +
           ".weight";
  }
  void AddPair(int layer, const std::string& module, int64_t outputs) {
    factors_[NameOf(layer, module, 'A')].shape = {kRank, kHidden};
    factors_[NameOf(layer, module, 'B')].shape = {outputs, kRank};
  }
  Result<PeftAdapter> Open() {
    std::filesystem::create_directories(path_);
    WriteText(path_ + "/adapter_config.json", config_.dump());
    const std::vector<uint8_t> zeros(1 << 20, 0);
    std::map<std::string, SafetensorsTensor> tensors;
    for (const auto& [name, factor] : factors_) {
      int64_t elements = 1;
      for (int64_t size : factor.shape) elements *= size;
      tensors[name] = {factor.type, factor.shape, std::span(zeros).first(size_t(elements * ElementBytes(factor.type)))};
    }
    EXPECT_TRUE(WriteSafetensors(path_ + "/adapter_model.safetensors", {{"format", "pt"}}, tensors).ok());
    return PeftAdapter::Open(path_);
  }
  void ExpectRefused(const std::vector<std::string>& parts) {
    const auto adapter = Open();
    ASSERT_FALSE(adapter.ok()) << parts[0];
    EXPECT_EQ(adapter.status().code(), StatusCode::kBadFile);
    EXPECT_THAT(adapter.status().message(), HasSubstr(path_));
    for (const std::string& part : parts) EXPECT_THAT(adapter.status().message(), HasSubstr(part));
  }
  void ExpectRefusedWith(const std::string& key, const nlohmann::json& value, const std::string& part) {
    const nlohmann::json before = config_;
    config_[key] = value;
    ExpectRefused({"adapter_config.json", key, part});
    config_ = before;
  }

  const std::string path_ = TemporaryPath("peft").string();
  nlohmann::json config_;
  std::map<std::string, Factor> factors_;
};

TEST_F(PeftAdapterTest, IsReadUnderTheNamesOfTheModelsMatrices) {
  const auto adapter = Open();
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  EXPECT_TRUE(PeftAdapter::IsAdapter(path_));
  EXPECT_EQ(adapter->rank(), kRank);
  EXPECT_EQ(adapter->scale(), 4.0);
  EXPECT_EQ(adapter->base_model(), "some/model");
  ASSERT_EQ(adapter->updates().size(), 4u);
  const LowRankUpdate& update = adapter->updates().at("blk.1.attn_v.weight");
  EXPECT_EQ(update.a.shape, (std::vector<int64_t>{kRank, kHidden}));
  EXPECT_EQ(update.b.shape, (std::vector<int64_t>{kKv, kRank}));
  EXPECT_TRUE(adapter->CheckFits(SmallModel()).ok());
}

TEST_F(PeftAdapterTest, ItsScaleIsAlphaOverTheRankOrItsRoot) {
  config_["use_rslora"] = true;
  EXPECT_EQ(Open()->scale(), 8.0);
}

TEST_F(PeftAdapterTest, FormsThatAddSomethingElseAreRefusedByName) {
  ExpectRefusedWith("peft_type", "IA3", "LORA");
  ExpectRefusedWith("task_type", "SEQ_CLS", "CAUSAL_LM");
  ExpectRefusedWith("use_dora", true, "form of LoRA");
  ExpectRefusedWith("rank_pattern", {{"q_proj", 8}}, "form of LoRA");
  ExpectRefusedWith("modules_to_save", {"lm_head"}, "form of LoRA");
  ExpectRefusedWith("layers_to_transform", {0}, "form of LoRA");
  ExpectRefusedWith("bias", "lora_only", "none");
  ExpectRefusedWith("init_lora_weights", "pissa", "orthogonal");
  ExpectRefusedWith("something_new", 1, "");
  ExpectRefusedWith("r", 0, "1");
  ExpectRefusedWith("r", "4", "whole number");
  ExpectRefusedWith("lora_alpha", nullptr, "a number");
  ExpectRefusedWith("target_modules", {"q_proj", "embed_tokens"}, "embed_tokens");
  ExpectRefusedWith("target_modules", {"q_proj", "v_proj", "q_proj"}, "twice");
  ExpectRefusedWith("target_modules", ".*_proj", "a list");
  ExpectRefusedWith("target_modules", nlohmann::json::array(), "a list");
}

TEST_F(PeftAdapterTest, TensorsAndConfigurationMustSayTheSame) {
  const auto good = factors_;
  config_["target_modules"].push_back("o_proj");
  ExpectRefused({"target module o_proj", "found none"});
  config_["target_modules"] = {"q_proj"};
  ExpectRefused({"v_proj", "target module"});
  config_["target_modules"] = {"q_proj", "v_proj"};

  factors_.erase(NameOf(1, "q_proj", 'B'));
  ExpectRefused({"model.layers.1.self_attn.q_proj.weight", "lora_A alone"});
  factors_ = good;
  factors_[NameOf(0, "q_proj", 'A')].shape = {8, kHidden};
  ExpectRefused({NameOf(0, "q_proj", 'A'), "[8, 96]", "r of 4"});
  factors_ = good;
  factors_[NameOf(0, "q_proj", 'B')].type = SafetensorsType::kI32;
  ExpectRefused({NameOf(0, "q_proj", 'B'), "I32"});
  factors_ = good;
  factors_["base_model.model.lm_head.lora_A.weight"].shape = {kRank, kHidden};
  ExpectRefused({"lm_head", "target module"});
  factors_ = good;
  factors_["base_model.model.model.layers.01.self_attn.q_proj.lora_A.weight"].shape = {kRank, kHidden};
  ExpectRefused({"layers.01", "target module"});
}

TEST_F(PeftAdapterTest, MissingFilesAreNamed) {
  std::filesystem::create_directories(path_);
  EXPECT_FALSE(PeftAdapter::IsAdapter(path_));
  EXPECT_THAT(PeftAdapter::Open(path_).status().message(), HasSubstr("adapter_model.safetensors"));
  Open().status();
  std::filesystem::remove(path_ + "/adapter_config.json");
  EXPECT_THAT(PeftAdapter::Open(path_).status().message(), HasSubstr("adapter_config.json"));
}

TEST_F(PeftAdapterTest, FitsOnlyTheModelItWasMadeFor) {
  ModelConfig deeper = SmallModel(), wider = SmallModel(), flatter = SmallModel();
  deeper.num_layers = 3;
  wider.hidden_size = 128;
  flatter.num_layers = 1;
  const auto adapter = Open();
  EXPECT_THAT(adapter->CheckFits(deeper).message(), HasSubstr("found none for layer 2"));
  EXPECT_THAT(adapter->CheckFits(wider).message(), testing::AllOf(HasSubstr("[64, 128]"), HasSubstr("[4, 96]")));
  EXPECT_THAT(adapter->CheckFits(flatter).message(), HasSubstr("the model has 1 layers"));

  // Of a layer that no number holds.
  const std::string far = "base_model.model.model.layers.99999999999999999999.self_attn.q_proj.lora_";
  factors_[far + "A.weight"].shape = {kRank, kHidden};
  factors_[far + "B.weight"].shape = {kQ, kRank};
  EXPECT_THAT(Open()->CheckFits(SmallModel()).message(), HasSubstr("99999999999999999999"));
}

}  // namespace
}  // namespace winnow
