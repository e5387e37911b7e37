// The golden ids are of Hugging Face's tokenizers (tests/golden/make_tokenizer_golden.py).
#include "model/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/philox.h"
#include "tests/model/golden_files.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_vocabulary.h"

namespace winnow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Tokenizer> Load(
    const std::function<void(TinyVocabulary*)>& change = [](TinyVocabulary*) {},
    const std::function<void(GgufWriter*)>& add = [](GgufWriter*) {}) {
  TinyVocabulary vocabulary;
  change(&vocabulary);
  GgufWriter writer;
  vocabulary.AddTo(&writer);
  add(&writer);
  const Result<GgufFile> file = GgufFile::FromBytes("tiny.gguf", writer.Build());
  if (!file.ok()) return file.status();
  return Tokenizer::FromGguf(*file);
}

std::string LoadError(const std::function<void(TinyVocabulary*)>& change) {
  const Result<Tokenizer> tokenizer = Load(change);
  if (tokenizer.ok()) return "no error";
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kBadFile);
  EXPECT_THAT(tokenizer.status().message(), HasSubstr("tiny.gguf"));
  return tokenizer.status().message();
}

TEST(Tokenizer, MergesByRankAndGivesTheTextBack) {
  const TinyVocabulary vocabulary;
  const Tokenizer tokenizer = Load().value();
  const auto ids = tokenizer.Encode("hello world, hel");
  ASSERT_TRUE(ids.ok());
  EXPECT_THAT(*ids,
              ElementsAre(vocabulary.IdOf("hello"), vocabulary.IdOf("Ġworld"), ',', ' ', vocabulary.IdOf("he"), 'l'));
  EXPECT_EQ(*tokenizer.Decode(*ids), "hello world, hel");
  EXPECT_EQ(tokenizer.TokenBytes(vocabulary.IdOf("Ġworld")), " world");
  EXPECT_EQ(tokenizer.vocab_size(), int(vocabulary.tokens.size()));
  EXPECT_THAT(*tokenizer.Encode(""), ElementsAre());
}

TEST(Tokenizer, GivesAnyUtf8TextBack) {
  const Tokenizer tokenizer = Load().value();
  const std::string corpus = ReadGolden("mixed_corpus.txt");
  EXPECT_EQ(*tokenizer.Decode(*tokenizer.Encode(corpus)), corpus);
}

TEST(Tokenizer, ReadsSpecialTokensOnlyWhenAsked) {
  const TinyVocabulary vocabulary;
  const Tokenizer tokenizer = Load().value();
  const int32_t start = vocabulary.IdOf("<|im_start|>"), end = vocabulary.IdOf("<|im_end|>");
  const std::string text = "<|im_start|>a<|im_end|><|im_end";
  EXPECT_THAT(*tokenizer.Encode(text, {.parse_special = true}),
              ElementsAre(start, 'a', end, '<', '|', 'i', 'm', '_', 'e', 'n', 'd'));
  const std::vector<int32_t> plain = *tokenizer.Encode(text);
  EXPECT_EQ(plain.size(), text.size());
  EXPECT_EQ(*tokenizer.Decode(plain), text);
  EXPECT_EQ(tokenizer.FindSpecial("<|im_end|>"), end);
  EXPECT_EQ(tokenizer.FindSpecial("hello"), std::nullopt);
  EXPECT_EQ(tokenizer.FindSpecial(""), std::nullopt);
  EXPECT_TRUE(tokenizer.IsControl(end));
  EXPECT_FALSE(tokenizer.IsControl('a'));
}

TEST(Tokenizer, TakesTheLongestSpecialTokenOfThoseThatStartAtOnePlace) {
  const Tokenizer tokenizer = Load([](TinyVocabulary* v) {
                                for (const char* token : {"<x", "<x>", "<x>y"}) {
                                  v->tokens.push_back(token);
                                  v->types.push_back(int32_t(TokenType::kUserDefined));
                                }
                              }).value();
  const int32_t first = tokenizer.vocab_size() - 3;
  EXPECT_THAT(*tokenizer.Encode("<x>y<x><x", {.parse_special = true}), ElementsAre(first + 2, first + 1, first));
}

TEST(Tokenizer, PutsTheFirstTokenInFrontAsTheFileOrTheCallerSays) {
  const TinyVocabulary vocabulary;
  const auto bos = int32_t(vocabulary.bos_id);
  const Tokenizer without = Load().value();
  EXPECT_THAT(*without.Encode("a"), ElementsAre('a'));
  EXPECT_THAT(*without.Encode("a", {.add_bos = true}), ElementsAre(bos, 'a'));
  const Tokenizer with = Load([](TinyVocabulary* v) { v->add_bos = true; }).value();
  EXPECT_EQ(with.bos_id(), bos);
  EXPECT_THAT(*with.Encode("a"), ElementsAre(bos, 'a'));
  EXPECT_THAT(*with.Encode("a", {.add_bos = false}), ElementsAre('a'));
}

TEST(Tokenizer, EndsAtTheStatedTokenAndAtTheWellKnownOnes) {
  const TinyVocabulary vocabulary;
  const Tokenizer tokenizer = Load().value();
  EXPECT_THAT(tokenizer.eos_ids(), ElementsAre(vocabulary.IdOf("<|endoftext|>"), vocabulary.IdOf("<|im_end|>")));
  const Tokenizer other =
      Load([](TinyVocabulary*) {}, [](GgufWriter* w) { w->AddUint32("tokenizer.ggml.eot_token_id", 7); }).value();
  EXPECT_THAT(other.eos_ids(), testing::Contains(7));
}

TEST(Tokenizer, LeavesOutBytesThatTheVocabularyLacks) {
  // A placeholder takes the place of the token of byte 4.
  const Tokenizer tokenizer = Load([](TinyVocabulary* v) { v->tokens[4] = "placeholder"; }).value();
  EXPECT_FALSE(tokenizer.HasByte(4));
  EXPECT_TRUE(tokenizer.HasByte(5));
  EXPECT_EQ(*tokenizer.Decode(*tokenizer.Encode("a\x04z\x05")), "az\x05");
}

TEST(Tokenizer, TakesWholePiecesOfTheVocabularyWhereItsRuleSaysSo) {
  // No merge leads to " xyz", but Llama 3's rule takes it as a whole.
  const auto change = [](const char* pre_tokenizer) {
    return [=](TinyVocabulary* v) {
      v->pre_tokenizer = pre_tokenizer;
      v->tokens.push_back("Ġxyz");
      v->types.push_back(int32_t(TokenType::kNormal));
    };
  };
  const Tokenizer llama = Load(change("llama-bpe")).value();
  EXPECT_THAT(*llama.Encode(" xyz"), ElementsAre(llama.vocab_size() - 1));
  EXPECT_THAT(*Load(change("qwen2")).value().Encode(" xyz"), ElementsAre(' ', 'x', 'y', 'z'));
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8AndIdsOutsideTheVocabulary) {
  const Tokenizer tokenizer = Load().value();
  const Status status = tokenizer.Encode("0123456789\xff").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("at byte 10"));
  for (const int32_t id : {-1, tokenizer.vocab_size()}) {
    const Status decoded = tokenizer.Decode(std::vector<int32_t>{1, id}).status();
    EXPECT_EQ(decoded.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(decoded.message(), HasSubstr("found " + std::to_string(id)));
  }
}

TEST(Tokenizer, RefusesMetadataThatContradictsItself) {
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->model = "t5"; }), HasSubstr("found \"t5\""));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->pre_tokenizer = "tekken"; }), HasSubstr("found \"tekken\""));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->pre_tokenizer = "default"; }),
              AllOf(HasSubstr("found \"default\""), HasSubstr("gguf-new-metadata --pre-tokenizer")));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->types.pop_back(); }),
              HasSubstr("token_type: expected one for each"));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->types[3] = 0; }), HasSubstr("token_type[3]"));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->types[3] = 6; }), HasSubstr("token_type[3]"));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->tokens[9] = v->tokens[8]; }), HasSubstr("also as token 8"));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->tokens[9] = ""; }), HasSubstr("found an empty token"));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->tokens[9] = "a b"; }), HasSubstr("byte alphabet, found \"a b\""));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->merges.push_back("q z"); }), HasSubstr("found \"qz\""));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->merges.push_back("hello"); }), HasSubstr("found \"hello\""));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->merges.push_back(" a"); }), HasSubstr("a space between"));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->merges.push_back("h e l"); }), HasSubstr("found \"e l\""));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->merges.push_back("h e"); }), HasSubstr("again"));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->eos_id = 100000; }), HasSubstr("found 100000"));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { v->bos_id = 272; }), HasSubstr("bos_token_id"));
  EXPECT_THAT(LoadError([](TinyVocabulary* v) { *v = TinyVocabulary(), v->tokens.clear(), v->types.clear(); }),
              HasSubstr("found 0"));
}

TEST(Tokenizer, RefusesAFileWithoutATokenizer) {
  const Result<GgufFile> file = GgufFile::FromBytes("tiny.gguf", GgufWriter().Build());
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(Tokenizer::FromGguf(*file).status().message(), HasSubstr("tokenizer.ggml.model"));
}

TEST(Tokenizer, SurvivesFlippedMetadata) {
  GgufWriter writer;
  TinyVocabulary().AddTo(&writer);
  const std::vector<uint8_t> whole = writer.Build();
  int num_loaded = 0;
  for (uint32_t trial = 0; trial < 3000; ++trial) {
    std::vector<uint8_t> bytes = whole;
    for (uint32_t flip = 0; flip < 2; ++flip) {
      const PhiloxBlock random = Philox(5, {trial, flip, 0, 0});
      bytes[random[0] % bytes.size()] = uint8_t(random[1]);
    }
    const Result<GgufFile> file = GgufFile::FromBytes("tiny.gguf", bytes);
    if (!file.ok()) continue;
    const Result<Tokenizer> tokenizer = Tokenizer::FromGguf(*file);
    if (!tokenizer.ok()) continue;
    ++num_loaded;
    const auto ids = tokenizer->Encode("hello <|im_end|> world \u00e9", {.parse_special = true});
    ASSERT_TRUE(ids.ok());
    ASSERT_TRUE(tokenizer->Decode(*ids).ok());
  }
  EXPECT_GT(num_loaded, 0);
}

TEST(Tokenizer, EncodesAMegabyteWordInSeconds) {
  const Tokenizer tokenizer = Load().value();
  const std::string text(1'000'000, 'a');
  const auto start = std::chrono::steady_clock::now();
  const auto ids = tokenizer.Encode(text);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));  // quadratic time would be an hour
  EXPECT_EQ(ids->size(), text.size() / 4);                                        // "aaaa"
}

// The model whose vocabulary the golden ids were made with, or a reason to skip.
Result<Tokenizer> GoldenTokenizer(const nlohmann::json& golden) {
  const char* path = std::getenv("WINNOW_MODEL");
  if (path == nullptr) return InvalidArgument("WINNOW_MODEL is not set");
  const Result<GgufFile> file = GgufFile::Open(path);
  if (!file.ok()) return file.status();
  const Result<std::string_view> name = file->GetString("general.name");
  if (!name.ok() || *name != golden["model"].get<std::string>())
    return InvalidArgument("WINNOW_MODEL is another model");
  return Tokenizer::FromGguf(*file);
}

TEST(Tokenizer, EqualsHuggingFaceOnTheMixedCorpus) {
  const nlohmann::json golden = nlohmann::json::parse(ReadGolden("tokenizer_smollm2.json"));
  const Result<Tokenizer> tokenizer = GoldenTokenizer(golden);
  if (!tokenizer.ok() && tokenizer.status().code() == StatusCode::kInvalidArgument) {
    GTEST_SKIP() << tokenizer.status().message();
  }
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(tokenizer->vocab_size(), golden["vocab_size"].get<int>());

  const std::string corpus = ReadGolden("mixed_corpus.txt");
  const std::vector<int32_t> ids = *tokenizer->Encode(corpus);
  EXPECT_EQ(ids, golden["ids"].get<std::vector<int32_t>>());
  std::string expected;  // this vocabulary has no token for a few control characters
  for (const char byte : corpus) {
    if (tokenizer->HasByte(uint8_t(byte))) expected.push_back(byte);
  }
  EXPECT_EQ(*tokenizer->Decode(ids), expected);

  const std::string chat = golden["chat_text"];
  const std::vector<int32_t> chat_ids = *tokenizer->Encode(chat, {.parse_special = true});
  EXPECT_EQ(chat_ids, golden["chat_ids"].get<std::vector<int32_t>>());
  EXPECT_EQ(*tokenizer->Decode(chat_ids), chat);
  EXPECT_THAT(tokenizer->eos_ids(),
              ElementsAre(*tokenizer->FindSpecial("<|endoftext|>"), *tokenizer->FindSpecial("<|im_end|>")));
}

}  // namespace
}  // namespace winnow
