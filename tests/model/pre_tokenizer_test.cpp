// tests/golden/make_tokenizer_golden.py made the golden pieces with Hugging Face's tokenizers.
#include "model/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/model/golden_files.h"

namespace winnow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Pieces(const char* name, std::string_view text) {
  std::vector<std::string> pieces;
  const PreTokenizer pre_tokenizer = PreTokenizer::Compile(FindPreTokenizerRule(name)->patterns).value();
  const Status status = pre_tokenizer.Split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  EXPECT_TRUE(status.ok()) << status.message();
  return pieces;
}

TEST(PreTokenizer, CutsTheMixedCorpusAsHuggingFaceDoes) {
  const std::string corpus = ReadGolden("mixed_corpus.txt");
  const nlohmann::json golden = nlohmann::json::parse(ReadGolden("tokenizer_smollm2.json"));
  for (const auto& [name, lengths] : golden["pieces"].items()) {
    const std::vector<std::string> pieces = Pieces(name.c_str(), corpus);
    ASSERT_EQ(pieces.size(), lengths.size()) << name;
    size_t offset = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      ASSERT_EQ(pieces[i].size(), lengths[i].get<size_t>()) << name << ": piece " << i << " at byte " << offset;
      ASSERT_EQ(corpus.substr(offset, pieces[i].size()), pieces[i]);
      offset += pieces[i].size();
    }
    EXPECT_EQ(offset, corpus.size());
  }
}

TEST(PreTokenizer, DiffersInNumbersAndContractionsByName) {
  EXPECT_THAT(Pieces("gpt2", "it's 1234  x"), ElementsAre("it", "'s", " 1234", " ", " x"));
  EXPECT_THAT(Pieces("smollm", "a 12  3"), ElementsAre("a", " ", "1", "2", "  ", "3"));
  EXPECT_THAT(Pieces("llama-bpe", "IT'S 1234\r\n x"), ElementsAre("IT", "'S", " ", "123", "4", "\r\n", " x"));
  EXPECT_THAT(Pieces("qwen2", "12 (x)\n"), ElementsAre("1", "2", " (", "x", ")\n"));
  EXPECT_THAT(Pieces("gpt2", ""), ElementsAre());
}

TEST(PreTokenizer, FollowsUnicodeNotPcre2InWhatIsASpace) {
  // U+180E is \s for PCRE2 and no White_Space for Unicode; U+0085 is a space for both.
  EXPECT_THAT(Pieces("gpt2", "a \u180e"), ElementsAre("a", " \u180e"));
  EXPECT_THAT(Pieces("gpt2", "a \u0085"), ElementsAre("a", " \u0085"));
  EXPECT_THAT(Pieces("gpt2", "a \u0085z"), ElementsAre("a", " ", "\u0085", "z"));
}

TEST(PreTokenizer, KnowsSynonymsAndNothingElse) {
  EXPECT_EQ(FindPreTokenizerRule("gpt-2"), FindPreTokenizerRule("gpt2"));
  EXPECT_EQ(FindPreTokenizerRule("default"), nullptr);  // what converters write when they do not know
  EXPECT_EQ(FindPreTokenizerRule("starcoder"), FindPreTokenizerRule("smollm"));
  EXPECT_EQ(FindPreTokenizerRule("SmolLM"), nullptr);
  EXPECT_EQ(FindPreTokenizerRule(""), nullptr);
  EXPECT_THAT(KnownPreTokenizerNames(), HasSubstr("smollm, starcoder"));
}

TEST(PreTokenizer, RefusesPatternsThatItCannotRun) {
  for (const auto& [pattern, message] : {std::pair("(a", "parenthesis"), {"a*", "may match the empty text"}}) {
    const Status status = PreTokenizer::Compile({"b", pattern}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(pattern), HasSubstr(message)));
  }
}

TEST(PreTokenizer, GivesUpOnAPatternThatTakesTooManySteps) {
  const PreTokenizer pre_tokenizer = PreTokenizer::Compile({"(?:a+)+[bc]"}).value();
  const Status status = pre_tokenizer.Split(std::string(100, 'a'), [](std::string_view) {});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("gives up after byte 0"));
}

TEST(PreTokenizer, CutsMegabytesOfOneKindInLinearTime) {
  for (const char* name : {"gpt2", "smollm", "llama-bpe", "qwen2"}) {
    for (const char* unit : {"a", "1", " ", "\n", "!", "\u00e9", "\U0001f600", "\u3000", " \n", "'s"}) {
      std::string text = "x";
      while (text.size() < 1'000'000) text += unit;
      text += "x";
      size_t num_bytes = 0;
      const PreTokenizer pre_tokenizer = PreTokenizer::Compile(FindPreTokenizerRule(name)->patterns).value();
      const Status status = pre_tokenizer.Split(text, [&](std::string_view piece) { num_bytes += piece.size(); });
      ASSERT_TRUE(status.ok()) << name << " " << unit << ": " << status.message();
      EXPECT_EQ(num_bytes, text.size());
    }
  }
}

}  // namespace
}  // namespace winnow
