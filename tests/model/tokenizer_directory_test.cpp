// Small tokenizers of every form that the families of models have, and what Hugging Face's tokenizers make of texts
// with them (tests/golden/make_small_tokenizers.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/philox.h"
#include "model/tokenizer.h"
#include "tests/model/golden_files.h"

namespace winnow {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

const std::string kFolder = WINNOW_GOLDEN_DIR "/tokenizers";
constexpr const char* kNames[] = {"bytes_qwen",  "bytes_llama3", "bytes_smollm",  "bpe_llama2",
                                  "bpe_mistral", "bpe_model",    "unigram_words", "unigram_model"};

const Json& Golden() {
  static const Json golden = Json::parse(ReadGolden("tokenizers/golden.json"));
  return golden;
}

Tokenizer Load(const std::string& name) {
  auto tokenizer = Tokenizer::FromDirectory(kFolder + "/" + name);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

uint64_t Fnv(const std::vector<int32_t>& ids) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) hash = (hash ^ (uint32_t(id) >> shift & 0xff)) * 0x100000001b3;
  }
  return hash;
}

class TokenizerFamilies : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerFamilies, EqualsHuggingFaceOnTexts) {
  const Tokenizer tokenizer = Load(GetParam());
  const Json& golden = Golden()[GetParam()];
  for (size_t i = 0; i < Golden()["texts"].size(); ++i) {
    if (golden["special"][i].is_null()) continue;
    const std::string text = Golden()["texts"][i];
    EXPECT_EQ(*tokenizer.Encode(text, {.parse_special = true, .add_bos = false}),
              golden["special"][i].get<std::vector<int32_t>>())
        << text;
    EXPECT_EQ(*tokenizer.Encode(text), golden["plain"][i].get<std::vector<int32_t>>()) << text;
  }
}

TEST_P(TokenizerFamilies, EqualsHuggingFaceOnTheMixedCorpus) {
  const std::vector<int32_t> ids = *Load(GetParam()).Encode(ReadGolden("mixed_corpus.txt"), {.parse_special = true});
  EXPECT_EQ(ids.size(), Golden()[GetParam()]["corpus_tokens"].get<size_t>());
  EXPECT_EQ(Fnv(ids), std::stoull(Golden()[GetParam()]["corpus_hash"].get<std::string>(), nullptr, 16));
}

TEST_P(TokenizerFamilies, DecodesAsHuggingFaceDoes) {
  const Tokenizer tokenizer = Load(GetParam());
  for (size_t i = 0; i < Golden()["texts"].size(); ++i) {
    if (Golden()[GetParam()]["decoded"][i].is_null()) continue;
    const std::string text = Golden()["texts"][i];
    const auto ids = *tokenizer.Encode(text, {.parse_special = true, .add_bos = false});
    EXPECT_EQ(*tokenizer.Decode(ids), Golden()[GetParam()]["decoded"][i].get<std::string>()) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerFamilies, testing::ValuesIn(kNames),
                         [](const auto& name) { return std::string(name.param); });

TEST(TokenizerDirectory, GivesTextsBackByteForByte) {
  // Form C may change a text, and SentencePiece cannot tell U+2581 from a space, nor Metaspace a first space from none.
  for (const char* name : {"bytes_llama3", "bytes_smollm", "bpe_llama2", "bpe_model", "unigram_model"}) {
    const Tokenizer tokenizer = Load(name);
    std::vector<std::string> texts = {ReadGolden("mixed_corpus.txt")};
    for (const auto& text : Golden()["texts"]) texts.push_back(text);
    for (const std::string& text : texts) {
      if (text.find("\u2581") != std::string::npos) continue;
      EXPECT_EQ(*tokenizer.Decode(*tokenizer.Encode(text, {.add_bos = false})), text) << name;
    }
  }
}

TEST(TokenizerDirectory, ReadsWhichTokensBeginAndEndATextFromTheFilesBesideIt) {
  const Tokenizer qwen = Load("bytes_qwen"), llama3 = Load("bytes_llama3"), llama2 = Load("bpe_llama2");
  EXPECT_EQ(qwen.bos_id(), std::nullopt);
  EXPECT_FALSE(qwen.adds_bos());
  EXPECT_THAT(qwen.eos_ids(), ElementsAre(*qwen.FindSpecial("<|endoftext|>"), *qwen.FindSpecial("<|im_end|>")));
  EXPECT_EQ(llama3.bos_id(), llama3.FindSpecial("<|begin|>"));
  EXPECT_TRUE(llama3.adds_bos());
  EXPECT_EQ(llama2.bos_id(), 1);
  EXPECT_THAT(llama2.eos_ids(), ElementsAre(2, *llama2.FindSpecial("<|im_end|>")));
}

TEST(TokenizerDirectory, NeverPutsASecondBeginOfTextInFront) {
  for (const char* name : {"bytes_llama3", "bpe_llama2", "bpe_mistral", "bpe_model"}) {
    const Tokenizer tokenizer = Load(name);
    const int32_t bos = *tokenizer.bos_id();
    const std::string text = std::string(tokenizer.TokenBytes(bos)) + "a";
    for (const auto add_bos : {std::optional<bool>(), std::optional(true), std::optional(false)}) {
      const auto ids = *tokenizer.Encode(text, {.parse_special = true, .add_bos = add_bos});
      EXPECT_EQ(ids[0], bos) << name;
      EXPECT_EQ(std::count(ids.begin(), ids.end(), bos), 1) << name;
    }
    // Spelled by a user it is text, and the true one stands in front of it.
    const auto plain = *tokenizer.Encode(text);
    EXPECT_EQ(std::count(plain.begin(), plain.end(), bos), 1) << name;
    EXPECT_GT(plain.size(), 3u) << name;
  }
}

TEST(TokenizerDirectory, KeepsEverySpecialTokenOutOfPlainText) {
  for (const char* name : kNames) {
    const Tokenizer tokenizer = Load(name);
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      const TokenType type = tokenizer.TypeOf(id);
      if (type != TokenType::kControl && type != TokenType::kUserDefined) continue;
      const std::string text = "x" + std::string(tokenizer.TokenBytes(id)) + "y";
      const std::vector<int32_t> plain = *tokenizer.Encode(text, {.add_bos = false});
      for (const int32_t found : plain) {
        EXPECT_TRUE(tokenizer.TypeOf(found) == TokenType::kNormal || tokenizer.TypeOf(found) == TokenType::kByte);
      }
      EXPECT_THAT(*tokenizer.Encode(text, {.parse_special = true, .add_bos = false}), testing::Contains(id)) << name;
    }
  }
}

// A copy of a golden directory whose tokenizer.json, tokenizer_config.json or tokenizer.model is changed.
class ChangedDirectory {
 public:
  explicit ChangedDirectory(const std::string& name)
      : path_(std::filesystem::path(testing::TempDir()) / ("winnow_tokenizer_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    for (const auto& entry : std::filesystem::directory_iterator(kFolder + "/" + name)) {
      std::filesystem::copy(entry.path(), path_);
    }
  }
  ~ChangedDirectory() { std::filesystem::remove_all(path_); }

  Json Read(const std::string& file) const { return Json::parse(std::ifstream(path_ / file)); }
  void Write(const std::string& file, const std::string& content) const {
    std::ofstream(path_ / file, std::ios::binary) << content;
  }
  Result<Tokenizer> Load() const { return Tokenizer::FromDirectory(path_.string()); }

 private:
  std::filesystem::path path_;
};

// The message of a directory whose tokenizer.json has this JSON Patch (RFC 6902) applied.
std::string PatchError(const std::string& name, const char* patch, const std::string& file = "tokenizer.json") {
  const ChangedDirectory directory(name);
  directory.Write(file, directory.Read(file).patch(Json::parse(patch)).dump());
  const auto tokenizer = directory.Load();
  if (tokenizer.ok()) return "no error";
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kBadFile);
  EXPECT_THAT(tokenizer.status().message(), HasSubstr(file));
  return tokenizer.status().message();
}

TEST(TokenizerDirectory, RefusesWhatItDoesNotKnowByName) {
  const auto replaced = [](const char* path, const char* value, const char* name = "bytes_qwen") {
    return PatchError(name,
                      (std::string("[{\"op\":\"add\",\"path\":\"") + path + "\",\"value\":" + value + "}]").c_str());
  };
  EXPECT_THAT(replaced("/normalizer", R"({"type":"NFKC"})"), HasSubstr("normalizer.type: expected NFC, Prepend"));
  EXPECT_THAT(replaced("/normalizer", R"({"type":"Replace","pattern":{"Regex":" +"},"content":" "})"),
              HasSubstr("\"Regex\""));
  EXPECT_THAT(replaced("/pre_tokenizer", R"({"type":"Whitespace"})"), HasSubstr("found \"Whitespace\""));
  EXPECT_THAT(replaced("/pre_tokenizer/pretokenizers/0/behavior", R"("Removed")"), HasSubstr("expected \"Isolated\""));
  EXPECT_THAT(replaced("/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("\\w+")"), HasSubstr("\\w"));
  EXPECT_THAT(replaced("/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("a*")"), HasSubstr("the empty text"));
  EXPECT_THAT(replaced("/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("(a")"), HasSubstr("parenthesis"));
  EXPECT_THAT(replaced("/pre_tokenizer/pretokenizers/1/add_prefix_space", "true"), HasSubstr("add_prefix_space"));
  EXPECT_THAT(replaced("/model/type", R"("WordPiece")"), HasSubstr("expected BPE or Unigram"));
  EXPECT_THAT(replaced("/model/dropout", "0.1"), HasSubstr("model.dropout"));
  EXPECT_THAT(replaced("/model/end_of_word_suffix", R"("</w>")"), HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(replaced("/model/new_thing", "true"), HasSubstr("found \"new_thing\""));
  EXPECT_THAT(replaced("/new_thing", "true"), HasSubstr("found \"new_thing\""));
  EXPECT_THAT(replaced("/decoder", R"({"type":"WordPiece"})"), HasSubstr("decoder.type"));
  EXPECT_THAT(replaced("/decoder", "null"), HasSubstr("expected a \"decoder\""));
  EXPECT_THAT(replaced("/post_processor", R"({"type":"BertProcessing"})"), HasSubstr("post_processor.type"));
  EXPECT_THAT(replaced("/added_tokens/0/lstrip", "true"), HasSubstr("added_tokens[0].lstrip"));
  EXPECT_THAT(replaced("/added_tokens/0/single_word", "true"), HasSubstr("single_word"));
  EXPECT_THAT(replaced("/added_tokens/0/normalized", "true"), HasSubstr("\"normalized\": false"));
  EXPECT_THAT(replaced("/post_processor/single/2", R"({"SpecialToken":{"id":"</s>","type_id":0}})", "bpe_llama2"),
              HasSubstr("one special token in front"));
  EXPECT_THAT(replaced("/pre_tokenizer/replacement", R"("_")", "bpe_mistral"), HasSubstr("replacement"));
  EXPECT_THAT(
      PatchError("bpe_llama2", R"([{"op":"replace","path":"/add_eos_token","value":true}])", "tokenizer_config.json"),
      HasSubstr("add_eos_token"));
  EXPECT_THAT(
      PatchError("bpe_llama2", R"([{"op":"replace","path":"/eos_token","value":"<gone>"}])", "tokenizer_config.json"),
      HasSubstr("eos_token: expected a token of the vocabulary"));
}

TEST(TokenizerDirectory, RefusesVocabulariesThatContradictThemselves) {
  const auto patched = [](const char* patch) { return PatchError("bytes_qwen", patch); };
  EXPECT_THAT(patched(R"([{"op":"add","path":"/model/vocab/zz","value":2000000000}])"), HasSubstr("without holes"));
  EXPECT_THAT(patched(R"([{"op":"remove","path":"/model/vocab/e"}])"), HasSubstr("none for id"));
  EXPECT_THAT(patched(R"([{"op":"add","path":"/model/vocab/zz","value":0}])"), HasSubstr("every id once"));
  EXPECT_THAT(patched(R"([{"op":"add","path":"/model/vocab/zz","value":-1}])"),
              HasSubstr("\"zz\": expected a token id"));
  EXPECT_THAT(patched(R"([{"op":"replace","path":"/added_tokens/0/content","value":""}])"), HasSubstr("empty token"));
  EXPECT_THAT(patched(R"([{"op":"replace","path":"/added_tokens/0/content","value":"a"}])"),
              HasSubstr("also as token"));
  EXPECT_THAT(patched(R"([{"op":"replace","path":"/added_tokens/0/id","value":0}])"), HasSubstr("every id once"));
  EXPECT_THAT(patched(R"([{"op":"add","path":"/model/merges/0","value":["q","\u4e2d"]}])"),
              HasSubstr("model.merges[0]"));
  EXPECT_THAT(patched(R"([{"op":"add","path":"/model/merges/0","value":"a b c"}])"), HasSubstr("model.merges[0]"));
  EXPECT_THAT(patched(R"([{"op":"copy","from":"/model/merges/0","path":"/model/merges/1"}])"),
              HasSubstr("every merge once"));
  EXPECT_THAT(PatchError("bpe_llama2", R"([{"op":"remove","path":"/model/vocab/<0x41>"}])"), HasSubstr("none for id"));
  EXPECT_THAT(PatchError("bpe_llama2", R"([{"op":"move","from":"/model/vocab/<0x41>","path":"/model/vocab/<0x-1>"}])"),
              HasSubstr("<0x-1>"));
  EXPECT_THAT(PatchError("unigram_words", R"([{"op":"replace","path":"/model/vocab/300","value":["x"]}])"),
              HasSubstr("model.vocab[300]"));
}

TEST(TokenizerDirectory, RefusesBrokenJson) {
  const auto error = [](const std::string& content) {
    const ChangedDirectory directory("bytes_qwen");
    directory.Write("tokenizer.json", content);
    return directory.Load().status().message();
  };
  EXPECT_THAT(error(R"({"model":{"vocab":{"a":0,"a":1}}})"), HasSubstr("found \"a\" twice"));
  EXPECT_THAT(error(std::string(100'000, '[')), HasSubstr("64 levels"));
  EXPECT_THAT(error("{\"model\": \"\xff\"}"), HasSubstr("error at byte"));
  EXPECT_THAT(error("{"), HasSubstr("expected JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("expected an object, found an array"));
  EXPECT_THAT(Tokenizer::FromDirectory("/nowhere").status().message(), HasSubstr("found neither"));
}

TEST(TokenizerDirectory, AddsTheTokensOfTheFilesBesideATokenizerModel) {
  const ChangedDirectory directory("bpe_model");
  directory.Write("added_tokens.json", R"({"<pad>":480,"<b>":481})");
  Json config = directory.Read("tokenizer_config.json");
  config["added_tokens_decoder"]["482"] = {{"content", "<c>"}, {"special", true}};
  directory.Write("tokenizer_config.json", config.dump());
  const auto tokenizer = directory.Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_THAT(*tokenizer->Encode("<b><c><pad>", {.parse_special = true}), ElementsAre(1, 481, 482, 480));
  EXPECT_EQ(tokenizer->TypeOf(481), TokenType::kUserDefined);
  EXPECT_EQ(tokenizer->TypeOf(482), TokenType::kControl);

  directory.Write("added_tokens.json", R"({"<pad>":485})");
  EXPECT_THAT(directory.Load().status().message(), HasSubstr("an id that follows the others"));
  directory.Write("added_tokens.json", R"({"<pad>":300})");
  EXPECT_THAT(directory.Load().status().message(), HasSubstr("expected a free id"));
  directory.Write("added_tokens.json", "{}");
  config["added_tokens_decoder"] = {{"481", {{"content", "<c>"}}}};
  directory.Write("tokenizer_config.json", config.dump());
  EXPECT_THAT(directory.Load().status().message(), HasSubstr("an id that follows the others"));
}

// The expected ids are those of transformers' LlamaTokenizer 4.38.2 with these files.
TEST(TokenizerDirectory, PutsASpaceInFrontOnlyOfTheWholeTextWithoutLegacy) {
  const ChangedDirectory directory("bpe_model");
  const auto ids = [&](const char* text) {
    return *directory.Load()->Encode(text, {.parse_special = true, .add_bos = false});
  };
  const auto pieces = [&](const char* text) {
    const auto tokenizer = directory.Load();
    std::string joined;
    for (const int32_t id : ids(text)) joined += "[" + std::string(tokenizer->TokenBytes(id)) + "]";
    return joined;
  };
  EXPECT_EQ(pieces("a</s>a"), "[ a][</s>][ a]");
  Json config = directory.Read("tokenizer_config.json");
  config["legacy"] = false;
  directory.Write("tokenizer_config.json", config.dump());
  EXPECT_EQ(pieces("a</s>a"), "[ a][</s>][a]");
  EXPECT_EQ(pieces(" a</s> a"), "[  ][a][</s>][ a]");
  EXPECT_EQ(*directory.Load()->Decode(ids(" a</s> a")), " a</s> a");
  EXPECT_EQ(pieces("</s>a"), "[</s>][a]");  // nothing in front of a special token either
  config["tokenizer_class"] = "T5Tokenizer";
  directory.Write("tokenizer_config.json", config.dump());
  EXPECT_THAT(directory.Load().status().message(), HasSubstr("legacy: expected true"));
}

TEST(TokenizerDirectory, PutsTheBeginOfTextInFrontForLlamaClassesThatDoNotSay) {
  const ChangedDirectory directory("bpe_llama2");
  Json config = directory.Read("tokenizer_config.json"), json = directory.Read("tokenizer.json");
  config.erase("add_bos_token");
  directory.Write("tokenizer_config.json", config.dump());
  json["post_processor"] = nullptr;
  directory.Write("tokenizer.json", json.dump());
  EXPECT_TRUE(directory.Load()->adds_bos());
  EXPECT_EQ(directory.Load()->bos_id(), 1);
  config.erase("bos_token");
  directory.Write("tokenizer_config.json", config.dump());
  EXPECT_EQ(directory.Load()->bos_id(), 1);  // "<s>" by default
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  directory.Write("tokenizer_config.json", config.dump());
  EXPECT_FALSE(directory.Load()->adds_bos());
  config["tokenizer_class"] = "LlamaTokenizerFast";
  config["add_bos_token"] = false;
  directory.Write("tokenizer_config.json", config.dump());
  EXPECT_FALSE(directory.Load()->adds_bos());
}

TEST(TokenizerDirectory, RefusesUnigramTokensWithoutEnd) {
  const std::string patch =
      R"([{"op":"replace","path":"/model/vocab/300/0","value":")" + std::string(1025, 'x') + R"("}])";
  EXPECT_THAT(PatchError("unigram_words", patch.c_str()), HasSubstr("expected at most 1024 bytes, found 1025"));
}

TEST(TokenizerDirectory, SurvivesDamage) {
  for (const char* name : {"bytes_llama3", "bpe_mistral", "bpe_model", "unigram_model"}) {
    const bool is_json = std::string(name).find("model") == std::string::npos;
    const std::string file = is_json ? "tokenizer.json" : "tokenizer.model";
    const std::string whole = ReadGolden(std::string("tokenizers/") + name + "/" + file);
    const ChangedDirectory directory(name);
    for (uint32_t trial = 0; trial < 60; ++trial) {
      const PhiloxBlock random = Philox(9, {trial, 0, 0, 0});
      std::string content = whole;
      if (trial % 3 == 0) content.resize(random[2] % content.size());
      for (uint32_t flip = 0; flip < 2 && !content.empty(); ++flip) {
        content[random[flip] % content.size()] = char(random[3] >> (8 * flip));
      }
      directory.Write(file, content);
      const auto tokenizer = directory.Load();
      if (!tokenizer.ok()) continue;
      const auto ids = tokenizer->Encode("Hello <s> world \u00e9\u4e2d", {.parse_special = true});
      if (ids.ok()) {
        ASSERT_TRUE(tokenizer->Decode(*ids).ok());
      }
    }
  }
}

}  // namespace
}  // namespace winnow
