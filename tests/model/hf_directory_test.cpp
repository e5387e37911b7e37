// Directories as Hugging Face writes them: weights under GGUF's names, and every way in which files of a directory can
// be missing, cut off or contradict each other (field cases 78, 80, 81, 83).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "model/checkpoint.h"
#include "model/dummy_checkpoint.h"
#include "model/hf_names.h"
#include "model/sharded_safetensors.h"
#include "tests/support/hf_directory.h"
#include "tests/support/temporary_path.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TinyModelSpec SmallSpec(bool tied) {
  return {.num_layers = 2,
          .num_query_heads = 2,
          .num_kv_heads = 1,
          .head_dim = 32,
          .ffn_size = 64,
          .context = 128,
          .tied_embeddings = tied,
          .weights = DType::kF32,
          .embeddings = DType::kF32};
}

class HfDirectoryTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(path_); }

  void Write(const HfDirectory& directory, int num_shards = 1) {
    fs::remove_all(path_);
    directory.Write(path_, num_shards);
  }
  std::string Shard(int shard) const { return path_ + "/model-0000" + std::to_string(shard) + "-of-00003.safetensors"; }
  nlohmann::json Index() const {
    std::ifstream file(path_ + "/model.safetensors.index.json");
    return nlohmann::json::parse(file);
  }
  void WriteIndex(const nlohmann::json& index) const {
    WriteText(path_ + "/model.safetensors.index.json", index.dump());
  }
  void ExpectRefused(const std::vector<std::string>& parts) const {
    const auto model = Checkpoint::Open(path_);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.status().code(), StatusCode::kBadFile);
    EXPECT_THAT(model.status().message(), HasSubstr(path_));
    for (const std::string& part : parts) EXPECT_THAT(model.status().message(), HasSubstr(part));
  }

  const std::string path_ = TemporaryPath("hf").string();
};

TEST(HfNames, TranslateBothWaysAndNothingElse) {
  for (const char* name :
       {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight", "model.layers.0.self_attn.q_proj.weight",
        "model.layers.17.self_attn.k_proj.bias", "model.layers.3.self_attn.q_norm.weight",
        "model.layers.3.mlp.down_proj.weight", "model.layers.3.post_attention_layernorm.weight"}) {
    ASSERT_TRUE(GgufNameOf(name)) << name;
    EXPECT_EQ(HfNameOf(*GgufNameOf(name)), name);
  }
  EXPECT_EQ(GgufNameOf("model.layers.3.mlp.down_proj.weight"), "blk.3.ffn_down.weight");
  for (const char* name :
       {"", "weight", "token_embd.weight", "blk.0.attn_q.weight", "model.layers.03.mlp.up_proj.weight",
        "model.layers.x.mlp.up_proj.weight", "model.layers..mlp.up_proj.weight", "model.layers.3",
        "model.layers.3.self_attn.o_proj.bias", "model.layers.3.mlp.gate.weight"}) {
    EXPECT_EQ(GgufNameOf(name), std::nullopt) << name;
  }
}

TEST_F(HfDirectoryTest, HoldsTheModelInOneFileOrInShards) {
  const HfDirectory directory(SmallSpec(/*tied=*/false));
  for (int num_shards : {1, 3}) {
    Write(directory, num_shards);
    const auto model = Checkpoint::Open(path_ + "/");
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ((*model)->path(), path_);
    EXPECT_EQ((*model)->config().num_layers, 2);
    EXPECT_FALSE((*model)->config().tied_embeddings);
    EXPECT_FALSE((*model)->config().permuted_qk_rows);
    EXPECT_THAT((*model)->config().name, HasSubstr("hf"));
    const TensorSource& weights = (*model)->weights();
    const TensorInfo* query = weights.Find("blk.1.attn_q.weight");
    ASSERT_NE(query, nullptr);
    EXPECT_EQ(query->shape, (std::vector<int64_t>{64, 64}));
    const TensorRows rows = weights.Rows(*query, {5}).value();
    const auto& bytes = directory.tensors.at("model.layers.1.self_attn.q_proj.weight").bytes;
    EXPECT_EQ(std::memcmp(rows.data.data() + 5 * 256, &bytes[5 * 256], 256), 0);
    weights.Release(*query);  // nothing that is read later may differ
    EXPECT_EQ(std::memcmp(weights.Rows(*query, {5}).value().data.data() + 5 * 256, &bytes[5 * 256], 256), 0);
    const auto tokenizer = (*model)->LoadTokenizer();
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("hello world").value()).value(), "hello world");
    EXPECT_TRUE((*model)->LoadChatTemplate().ok());
    EXPECT_EQ((*model)->LoadTemplateTokens()->eos_token, "<|im_end|>");
  }
}

TEST_F(HfDirectoryTest, GenerationConfigAddsEndsOfTextAndDefaults) {
  HfDirectory directory(SmallSpec(true));
  directory.config["eos_token_id"] = 7;
  directory.generation_config = {{"eos_token_id", {3, 5}},
                                 {"do_sample", true},
                                 {"temperature", 0.6},
                                 {"top_p", 0.95},
                                 {"top_k", 20},
                                 {"repetition_penalty", 1.05},
                                 {"no_repeat_ngram_size", 0},
                                 {"suppress_tokens", nlohmann::json::array()},
                                 {"bad_words_ids", {{7}}},
                                 {"forced_eos_token_id", nullptr},
                                 {"transformers_version", "4"},
                                 {"_from_model_config", true}};
  Write(directory);
  const auto model = Checkpoint::Open(path_);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const GenerationDefaults& defaults = (*model)->generation_defaults();
  EXPECT_TRUE(defaults.sample);
  EXPECT_EQ(defaults.temperature, 0.6f);
  EXPECT_EQ(defaults.top_p, 0.95f);
  EXPECT_EQ(defaults.top_k, 20);
  EXPECT_EQ(defaults.min_p, std::nullopt);
  EXPECT_THAT(defaults.not_supported, testing::ElementsAre("repetition_penalty 1.05", "bad_words_ids"));
  const auto ends = (*model)->LoadTokenizer().value().eos_ids();
  for (int32_t id : {3, 5, 7}) EXPECT_THAT(ends, testing::Contains(id));
  EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end()));

  const nlohmann::json wrong = {{"temperature", "hot"}, {"top_p", 1.5}, {"eos_token_id", -1}};
  for (const auto& [key, value] : wrong.items()) {
    directory.generation_config = {{key, value}};
    Write(directory);
    ExpectRefused({"generation_config.json", key});
  }
  directory.generation_config = {{"eos_token_id", 100000}};
  Write(directory);
  EXPECT_THAT(Checkpoint::Open(path_).value()->LoadTokenizer().status().message(), HasSubstr("100000"));
}

TEST_F(HfDirectoryTest, OtherWeightsOfTheSameShapesAreAnotherModel) {
  HfDirectory directory(SmallSpec(true));
  Write(directory);
  const uint64_t first = Checkpoint::Open(path_).value()->Fingerprint();
  EXPECT_EQ(Checkpoint::Open(path_).value()->Fingerprint(), first);
  TinyModelSpec other = SmallSpec(true);
  other.seed = 2;
  Write(HfDirectory(other));
  EXPECT_NE(Checkpoint::Open(path_).value()->Fingerprint(), first);
}

TEST_F(HfDirectoryTest, MadeUpModelsOfOneFolderAreToldApartByTheirConfiguration) {
  HfDirectory directory(SmallSpec(true));
  Write(directory);
  const auto of_theta = [&](double theta) {
    directory.config["rope_theta"] = theta;
    const std::string config = path_ + "/theta.json";
    std::ofstream(config) << directory.config.dump();
    return DummyCheckpoint::Open(config).value()->Fingerprint();
  };
  EXPECT_EQ(of_theta(10000), of_theta(10000));
  EXPECT_NE(of_theta(10000), of_theta(500000));
  EXPECT_NE(DummyCheckpoint::Open(path_).value()->Fingerprint(), Checkpoint::Open(path_).value()->Fingerprint());
}

TEST_F(HfDirectoryTest, TiedEmbeddingsInFourCombinations) {
  HfDirectory directory(SmallSpec(/*tied=*/true));  // no head
  Write(directory);
  EXPECT_TRUE(Checkpoint::Open(path_).value()->config().tied_embeddings);

  directory.config["tie_word_embeddings"] = false;
  Write(directory);
  ExpectRefused({"lm_head.weight", "found none", "tie_word_embeddings"});

  directory.tensors["lm_head.weight"] = directory.tensors["model.embed_tokens.weight"];
  Write(directory);
  EXPECT_FALSE(Checkpoint::Open(path_).value()->config().tied_embeddings);

  directory.config["tie_word_embeddings"] = true;  // a copy of the embedding is no contradiction
  Write(directory);
  const auto model = Checkpoint::Open(path_).value();
  EXPECT_TRUE(model->config().tied_embeddings);
  EXPECT_EQ(model->weights().Find("output.weight"), nullptr);

  directory.tensors["lm_head.weight"].bytes[100] ^= 1;
  Write(directory);
  ExpectRefused({"lm_head.weight", "differs", "tie_word_embeddings"});
}

TEST_F(HfDirectoryTest, EveryUnexpectedTensorIsNamed) {
  HfDirectory directory(SmallSpec(true));
  directory.tensors["model.layers.0.self_attn.o_proj.bias"] = {DType::kF32, {1}, {0, 0, 0, 0}};
  directory.tensors["vision.weight"] = {DType::kF32, {1}, {0, 0, 0, 0}};
  Write(directory);
  ExpectRefused({"model.layers.0.self_attn.o_proj.bias", "vision.weight"});
  directory.tensors.erase("vision.weight");
  directory.tensors.erase("model.layers.0.self_attn.o_proj.bias");
  directory.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {DType::kF32, {1}, {0, 0, 0, 0}};
  Write(directory);
  EXPECT_TRUE(Checkpoint::Open(path_).ok());
  directory.tensors.erase("model.layers.1.mlp.up_proj.weight");
  Write(directory);
  ExpectRefused({"model.layers.1.mlp.up_proj.weight"});
}

TEST_F(HfDirectoryTest, MissingShardsAreListed) {
  Write(HfDirectory(SmallSpec(true)), 3);
  fs::remove(Shard(1));
  fs::remove(Shard(3));
  ExpectRefused({"3 shards", "model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"});
}

TEST_F(HfDirectoryTest, ACutShardIsRefusedWithItsSizes) {
  Write(HfDirectory(SmallSpec(true)), 3);
  const auto size = fs::file_size(Shard(2));
  fs::resize_file(Shard(2), size - 4096);
  ExpectRefused({"model-00002-of-00003.safetensors", std::to_string(size - 4096), "cut off"});
  fs::resize_file(Shard(2), size + 10);
  ExpectRefused({"model-00002-of-00003.safetensors", "bytes of data"});
}

TEST_F(HfDirectoryTest, IndexAndShardsMustAgree) {
  Write(HfDirectory(SmallSpec(true)), 3);
  const nlohmann::json good = Index();
  const auto refuse_with = [&](const std::string& key, const nlohmann::json& value,
                               const std::vector<std::string>& parts) {
    nlohmann::json index = good;
    index["weight_map"][key] = value;
    WriteIndex(index);
    ExpectRefused(parts);
  };
  refuse_with("lm_head.weight", "model-00001-of-00003.safetensors", {"missing lm_head.weight"});
  const std::string norm = "model.norm.weight", home = good["weight_map"][norm];
  refuse_with(norm,
              home == "model-00001-of-00003.safetensors" ? "model-00002-of-00003.safetensors"
                                                         : "model-00001-of-00003.safetensors",
              {norm, "found it in", home});
  refuse_with(norm, "../secret", {norm, "name of a file"});
  refuse_with(norm, 3, {norm, "name of a file"});
  nlohmann::json index = good;
  index["weight_map"].erase(norm);
  WriteIndex(index);
  ExpectRefused({norm, "not listed"});
  index = good;
  index["metadata"]["total_size"] = 5;
  WriteIndex(index);
  ExpectRefused({"total_size", "found 5"});
  WriteText(path_ + "/model.safetensors.index.json", "{\"weight_map\": {\"a\": \"b\", \"a\": \"c\"}}");
  ExpectRefused({"\"a\" twice"});
  WriteIndex(good);
  EXPECT_TRUE(Checkpoint::Open(path_).ok());
  fs::copy_file(Shard(1), path_ + "/model.safetensors");
  ExpectRefused({"found both"});
}

TEST_F(HfDirectoryTest, WhatIsNotThereIsNamed) {
  HfDirectory directory(SmallSpec(true));
  directory.add_tokenizer = false;
  Write(directory);
  const auto model = Checkpoint::Open(path_);
  ASSERT_TRUE(model.ok());
  EXPECT_THAT((*model)->LoadTokenizer().status().message(), HasSubstr("tokenizer.json"));
  EXPECT_THAT((*model)->LoadChatTemplate().status().message(), HasSubstr("chat_template.jinja"));
  EXPECT_THAT(Checkpoint::Open(path_ + "/model.safetensors").status().message(), HasSubstr("give " + path_));
  EXPECT_THAT(Checkpoint::Open(path_ + "/config.json").status().message(), HasSubstr("--load-format dummy"));
  fs::remove(path_ + "/model.safetensors");
  WriteText(path_ + "/pytorch_model.bin", "x");
  ExpectRefused({"found neither", "pytorch_model.bin", "pickle"});
  fs::remove(path_ + "/config.json");
  ExpectRefused({"config.json", "No such file"});
}

TEST_F(HfDirectoryTest, ChatTemplatesComeFromEitherFile) {
  Write(HfDirectory(SmallSpec(true)));
  const auto rendered = [&] {
    ChatInput input;
    input.messages = nlohmann::ordered_json::array({{{"role", "user"}, {"content", "hi"}}});
    const auto chat_template = Checkpoint::Open(path_).value()->LoadChatTemplate();
    return chat_template.ok() ? chat_template->Render(input, {}).value().text : chat_template.status().message();
  };
  EXPECT_EQ(rendered(), "hi");
  WriteText(path_ + "/tokenizer_config.json",
            R"({"chat_template": [{"name": "rag", "template": "x"}, {"name": "default", "template": "y"}]})");
  EXPECT_EQ(rendered(), "y");
  WriteText(path_ + "/tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  EXPECT_THAT(rendered(), HasSubstr("found \"rag\""));
  WriteText(path_ + "/tokenizer_config.json", R"({"chat_template": "{% bad %}"})");
  EXPECT_THAT(rendered(), HasSubstr("tokenizer_config.json: "));
  WriteText(path_ + "/chat_template.jinja", "{{ messages[0].content }}!");
  EXPECT_EQ(rendered(), "hi!");
}

TEST_F(HfDirectoryTest, RanksCanTellThatTheyOpenedDifferentModels) {
  HfDirectory directory(SmallSpec(true));
  Write(directory, 3);
  const uint64_t shards = Checkpoint::Open(path_).value()->Fingerprint();
  Write(directory, 1);
  EXPECT_EQ(Checkpoint::Open(path_).value()->Fingerprint(), shards);
  directory.config["rope_theta"] = 20000;
  Write(directory, 1);
  EXPECT_NE(Checkpoint::Open(path_).value()->Fingerprint(), shards);
}

TEST_F(HfDirectoryTest, MadeUpWeightsNeedAConfigAlone) {
  HfDirectory directory(SmallSpec(false));
  Write(directory);
  fs::remove(path_ + "/model.safetensors");
  const auto of_directory = Checkpoint::OpenDummy(path_);
  ASSERT_TRUE(of_directory.ok()) << of_directory.status().message();
  EXPECT_EQ((*of_directory)->weights().Find("output.weight")->dtype, DType::kF32);
  EXPECT_THAT((*of_directory)->config().name, HasSubstr("made-up"));
  EXPECT_TRUE((*of_directory)->LoadTokenizer().ok());
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) fs::remove(path_ + "/" + name);
  const auto of_file = Checkpoint::OpenDummy(path_ + "/config.json");
  ASSERT_TRUE(of_file.ok()) << of_file.status().message();
  const Tokenizer numbers = (*of_file)->LoadTokenizer().value();
  EXPECT_EQ(numbers.Decode(std::vector<int32_t>{7, 0}).value(), "<7><0>");
  EXPECT_TRUE(numbers.Encode("no text has tokens: <7>").value().empty());
  EXPECT_EQ(Checkpoint::OpenDummy(path_ + "/none.json").status().code(), StatusCode::kBadFile);
}

}  // namespace
}  // namespace winnow
