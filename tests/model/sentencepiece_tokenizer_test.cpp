// SentencePiece's tokenizers out of GGUF files and tokenizer.model files; tokenizer_directory_test.cpp compares their
// ids with Hugging Face's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

#include "model/piece_cuts.h"
#include "model/sentencepiece_model.h"
#include "model/tokenizer.h"
#include "tests/model/golden_files.h"
#include "tests/support/gguf_writer.h"

namespace winnow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TokenizerSpec GoldenSpec() {
  TokenizerSpec spec;
  spec.source = "tokenizer.model";
  const std::string bytes = ReadGolden("tokenizers/bpe_model/tokenizer.model");
  const Status status = ReadSentencePieceModel({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, &spec);
  EXPECT_TRUE(status.ok()) << status.message();
  return spec;
}

Result<Tokenizer> ThroughGguf(
    const TokenizerSpec& spec, const std::function<void(GgufWriter*)>& add = [](GgufWriter*) {}) {
  GgufWriter writer;
  writer.AddString("tokenizer.ggml.model", "llama");
  writer.AddStringArray("tokenizer.ggml.tokens", spec.tokens);
  writer.AddFloat32Array("tokenizer.ggml.scores", std::vector<float>(spec.scores.begin(), spec.scores.end()));
  std::vector<int32_t> types;
  for (const TokenType type : spec.types) types.push_back(int32_t(type));
  writer.AddInt32Array("tokenizer.ggml.token_type", types);
  writer.AddUint32("tokenizer.ggml.bos_token_id", 1);
  writer.AddUint32("tokenizer.ggml.eos_token_id", 2);
  add(&writer);
  const auto file = GgufFile::FromBytes("tiny.gguf", writer.Build());
  if (!file.ok()) return file.status();
  return Tokenizer::FromGguf(*file);
}

std::string LoadError(const std::function<void(TokenizerSpec*)>& change) {
  TokenizerSpec spec = GoldenSpec();
  change(&spec);
  const auto tokenizer = ThroughGguf(spec);
  if (tokenizer.ok()) return "no error";
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kBadFile);
  return tokenizer.status().message();
}

TEST(SentencePieceTokenizer, IsTheSameOutOfBothFiles) {
  const Tokenizer gguf = ThroughGguf(GoldenSpec()).value();
  const Tokenizer model = Tokenizer::FromDirectory(WINNOW_GOLDEN_DIR "/tokenizers/bpe_model").value();
  const std::string corpus = ReadGolden("mixed_corpus.txt");
  for (const bool special : {false, true}) {
    EXPECT_EQ(*gguf.Encode(corpus, {.parse_special = special}), *model.Encode(corpus, {.parse_special = special}));
  }
  EXPECT_EQ(gguf.bos_id(), 1);
  EXPECT_TRUE(gguf.adds_bos());
  EXPECT_THAT(gguf.eos_ids(), ElementsAre(2, 4));  // </s>, <|im_end|>
}

TEST(SentencePieceTokenizer, PutsASpaceInFrontAsTheFileSays) {
  const Tokenizer with = ThroughGguf(GoldenSpec()).value();
  const Tokenizer without = ThroughGguf(GoldenSpec(), [](GgufWriter* writer) {
                              writer->AddBool("tokenizer.ggml.add_space_prefix", false);
                              writer->AddBool("tokenizer.ggml.add_bos_token", false);
                            }).value();
  EXPECT_EQ(with.TokenBytes(with.Encode("the", {.add_bos = false})->front()).front(), ' ');
  EXPECT_EQ(*with.Decode(*with.Encode("the", {.add_bos = false})), "the");
  EXPECT_EQ(*with.Encode(" the"), *without.Encode("  the", {.add_bos = true}));
  EXPECT_EQ(*without.Decode(*without.Encode(" the")), " the");
}

TEST(SentencePieceTokenizer, RefusesVocabulariesThatContradictThemselves) {
  const auto token = [](size_t id, std::string text) {
    return [id, text = std::move(text)](TokenizerSpec* spec) { spec->tokens[id] = text; };
  };
  const TokenizerSpec whole = GoldenSpec();
  const size_t byte = size_t(std::find(whole.tokens.begin(), whole.tokens.end(), "<0x00>") - whole.tokens.begin());
  ASSERT_LT(byte, whole.tokens.size());
  for (const char* text : {"<0x-1>", "<0xZZ>", "<0x0a>", "<0x100>", "<0x1>", "x"}) {
    EXPECT_THAT(LoadError(token(byte, text)), HasSubstr("expected a byte as <0x00> to <0xFF>, found")) << text;
  }
  EXPECT_THAT(LoadError([&](TokenizerSpec* spec) { spec->types[byte] = TokenType::kNormal; }),
              HasSubstr("found none for <0x00>"));
  EXPECT_THAT(LoadError(token(400, "")), HasSubstr("empty token"));
  EXPECT_THAT(LoadError(token(400, whole.tokens[300])), HasSubstr("also as token 300"));
  EXPECT_THAT(LoadError(token(400, "\xff")), HasSubstr("expected UTF-8"));
  EXPECT_THAT(LoadError(token(400, std::string(1'000'000, 'a'))), HasSubstr("found 1000000"));
  EXPECT_THAT(LoadError([](TokenizerSpec* spec) { spec->scores.pop_back(); }), HasSubstr("expected a score for each"));
  EXPECT_THAT(LoadError([](TokenizerSpec* spec) { spec->scores[400] = NAN; }), HasSubstr("finite"));
  EXPECT_THAT(LoadError([](TokenizerSpec* spec) { spec->types[400] = TokenType(7); }), HasSubstr("type of 1 to 6"));
  EXPECT_THAT(
      ThroughGguf(whole, [](GgufWriter* w) { w->AddBool("tokenizer.ggml.add_eos_token", true); }).status().message(),
      HasSubstr("add_eos_token"));
}

TEST(SentencePieceTokenizer, RefusesSettingsOfTokenizerModelThatItLacks) {
  const std::string whole = ReadGolden("tokenizers/bpe_model/tokenizer.model");
  const auto error = [&](const std::string& more) {  // a message that comes again counts as its continuation
    TokenizerSpec spec;
    const std::string bytes = whole + more;
    return ReadSentencePieceModel({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, &spec).message();
  };
  using std::string_literals::operator""s;
  EXPECT_EQ(error(""), "");
  EXPECT_THAT(error("\x12\x02\x18\x03"), HasSubstr("model_type: expected 1 (unigram) or 2 (BPE), found 3"));
  EXPECT_THAT(error("\x1a\x03\x12\x01x"), HasSubstr("normalizer: expected identity"));
  EXPECT_THAT(error("\x1a\x02\x20\x01"), HasSubstr("remove_extra_whitespaces"));
  EXPECT_THAT(error("\x1a\x02\x28\x00"s), HasSubstr("escape_whitespaces"));
  EXPECT_THAT(error("\x12\x03\xc0\x01\x01"), HasSubstr("treat_whitespace_as_suffix"));
  EXPECT_THAT(error("\x0a\x05\x0a\x01x\x18\x05"), HasSubstr("expected a type of 1 to 4 or 6, found 5"));
  EXPECT_THAT(error("\x0a\x03\x10\x01x"), HasSubstr("wire type"));
  EXPECT_THAT(error("\x0a\x7f"), HasSubstr("found bytes that are none"));
  EXPECT_THAT(error("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), HasSubstr("found bytes that are none"));
}

TEST(SentencePieceTokenizer, LoadsALargeVocabularyInASecond) {
  TokenizerSpec spec = GoldenSpec();
  for (int i = 0; spec.tokens.size() < 256'000; ++i) {
    spec.tokens.push_back("\u2581w" + std::to_string(i));
    spec.types.push_back(TokenType::kNormal);
    spec.scores.push_back(-1000.0 - i);
  }
  spec.merges_name = spec.tokens_name = "pieces";
  const auto start = std::chrono::steady_clock::now();
  const auto tokenizer = Tokenizer::FromSpec(spec);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));  // 0.3 s alone, without sanitizers
}

TEST(PieceCuts, CutBetweenCharactersThatNoTokenHasSideBySide) {
  PieceCuts cuts;
  EXPECT_EQ(cuts.FirstPiece("ab"), 1u);
  cuts.AddToken("ab");
  cuts.AddToken("b\u4e2d");
  EXPECT_EQ(cuts.FirstPiece("ab\u4e2da"), 5u);
  EXPECT_EQ(cuts.FirstPiece("ba"), 1u);
  EXPECT_EQ(cuts.FirstPiece("\u4e2d\u4e2d"), 3u);
}

}  // namespace
}  // namespace winnow
