#include "launch/eval_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_path.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

using testing::HasSubstr;

class EvalTexts : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string WriteFile(const std::string& name, const std::string& content) {
    std::filesystem::create_directories(folder_);
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  Result<std::vector<EvalText>> Read(const std::vector<std::string>& paths, EvalTextLimits limits = {}) const {
    if (limits.max_tokens == 0) limits.max_tokens = 1000;
    return ReadEvalTexts(paths, limits, tokenizer_);
  }
  std::vector<EvalText> ReadLines(const std::string& lines, const EvalTextLimits& limits = {}) {
    return Read({WriteFile("lines.jsonl", lines)}, limits).value();
  }
  void ExpectRefused(const std::vector<std::string>& paths, const std::vector<std::string>& parts,
                     const EvalTextLimits& limits = {}) {
    const Status status = Read(paths, limits).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    for (const std::string& part : parts) EXPECT_THAT(status.message(), HasSubstr(part));
  }
  void ExpectLineRefused(const std::string& line, const std::string& part) {
    const std::string path = WriteFile("bad.jsonl", "{\"text\": \"good\"}\n\n" + line + "\n");
    ExpectRefused({path}, {path + " line 3", part});
  }
  std::vector<int32_t> Encode(const std::string& text) const { return tokenizer_.Encode(text).value(); }

  const std::filesystem::path folder_ =
      TemporaryPath(std::string("eval_texts_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  const TinyModel model_{{.num_layers = 1}};
  const Tokenizer tokenizer_ = Tokenizer::FromGguf(model_.file).value();
};

TEST_F(EvalTexts, AFileIsOneDocumentNamedAfterItself) {
  const std::string path = WriteFile("war_and_peace.txt", "well, prince\r\n\r\n");
  const auto texts = Read({path}).value();
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_EQ(texts[0].id, path);
  EXPECT_EQ(texts[0].kind, "war_and_peace");
  EXPECT_EQ(texts[0].tokens, Encode("well, prince\r\n\r\n"));
  EXPECT_EQ(texts[0].prompt_tokens, 0);
}

TEST_F(EvalTexts, LinesAreDocumentsWithWhatTheyNameAndOtherFieldsAreLeftAlone) {
  const auto texts = ReadLines(
      "{\"text\": \"1 + 1 = 2\", \"id\": \"sum\", \"kind\": \"exam\", \"prompt\": \"1 + 1\", \"answer\": [{\"n\": "
      "2}]}\r\n"
      "  \n{\"text\": \"caf\\u00e9\"}");
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0].id, "sum");
  EXPECT_EQ(texts[0].kind, "exam");
  EXPECT_EQ(texts[0].tokens, Encode("1 + 1 = 2"));
  EXPECT_EQ(texts[0].prompt_tokens, int64_t(Encode("1 + 1").size()));
  EXPECT_THAT(texts[1].id, HasSubstr("lines.jsonl line 3"));
  EXPECT_EQ(texts[1].kind, "text");
  EXPECT_EQ(texts[1].tokens, Encode("caf\xc3\xa9"));
}

TEST_F(EvalTexts, OnlyWholeTokensOfAPromptAreProtected) {
  // "hell" ends inside a token if the vocabulary merges "hello".
  for (const std::string prompt : {"h", "he", "hel", "hell", "hello", "hello w", "hello world"}) {
    const auto text = ReadLines("{\"text\": \"hello world\", \"prompt\": \"" + prompt + "\"}")[0];
    const std::vector<int32_t> all = Encode("hello world");
    EXPECT_EQ(text.tokens, all);
    ASSERT_LE(text.prompt_tokens, int64_t(all.size()));
    const auto protected_text = tokenizer_.Decode(std::span(all).first(size_t(text.prompt_tokens))).value();
    EXPECT_TRUE(prompt.starts_with(protected_text)) << prompt << ": " << protected_text;
  }
  EXPECT_EQ(ReadLines("{\"text\": \"hello world\", \"prompt\": \"hello world\"}")[0].prompt_tokens,
            int64_t(Encode("hello world").size()));
}

TEST_F(EvalTexts, LongTextsAreCut) {
  const auto text = ReadLines("{\"text\": \"xyzxyzxyzxyz\", \"prompt\": \"xyzxyz\"}", {.max_tokens = 4})[0];
  const std::vector<int32_t> all = Encode("xyzxyzxyzxyz");
  EXPECT_EQ(text.tokens, std::vector(all.begin(), all.begin() + 4));
  EXPECT_LE(text.prompt_tokens, 4);
}

TEST_F(EvalTexts, SplitsAndNumbersOfEachKindChooseDocumentsInOrder) {
  const std::string lines =
      "{\"text\": \"a1\", \"id\": \"1\", \"kind\": \"a\", \"split\": \"test\"}\n"
      "{\"text\": \"a2\", \"id\": \"2\", \"kind\": \"a\", \"split\": \"train\"}\n"
      "{\"text\": \"b3\", \"id\": \"3\", \"kind\": \"b\", \"split\": \"test\"}\n"
      "{\"text\": \"a4\", \"id\": \"4\", \"kind\": \"a\", \"split\": \"test\"}\n"
      "{\"text\": \"a5\", \"id\": \"5\", \"kind\": \"a\", \"split\": \"test\"}\n"
      "{\"text\": \"c6\", \"id\": \"6\", \"kind\": \"a\"}\n";
  const auto ids = [&](const EvalTextLimits& limits) {
    std::string found;
    for (const EvalText& text : ReadLines(lines, limits)) found += text.id;
    return found;
  };
  EXPECT_EQ(ids({}), "123456");
  EXPECT_EQ(ids({.split = "test"}), "1345");
  EXPECT_EQ(ids({.split = "test", .max_texts = 2}), "134");
  EXPECT_EQ(ids({.max_texts = 1}), "13");
  // Kinds are counted over all files.
  const std::string path = WriteFile("again.jsonl", lines);
  EXPECT_EQ(Read({path, path}, {.max_texts = 1}).value().size(), 2u);
  ExpectRefused({path}, {"no document of the split 'dev'"}, {.split = "dev"});
  ExpectRefused({WriteFile("plain.txt", "a plain text")}, {"no document of the split 'test'"}, {.split = "test"});
}

TEST_F(EvalTexts, BadLinesAreNamedWithFileAndNumber) {
  ExpectLineRefused("not json", "not valid JSON");
  ExpectLineRefused("[\"text\"]", "expected a JSON object");
  ExpectLineRefused("{\"text\": \"cut off", "not valid JSON");
  ExpectLineRefused("{\"text\": \"caf\xe9\"}", "not valid JSON");  // Latin-1
  ExpectLineRefused("{}", "field \"text\"");
  ExpectLineRefused("{\"text\": \"\"}", "field \"text\"");
  ExpectLineRefused("{\"text\": 5}", "field \"text\": expected text, found 5");
  ExpectLineRefused("{\"text\": \"ab\", \"id\": 7}", "field \"id\": expected text, found 7");
  ExpectLineRefused("{\"text\": \"ab\", \"prompt\": [\"ab\"]}", "field \"prompt\": expected text, found an array");
  ExpectLineRefused("{\"text\": \"ab\", \"text\": \"cd\"}", "given twice");
  ExpectLineRefused("{\"text\": \"ab\", \"prompt\": \"b\"}", "does not begin with its \"prompt\"");
  ExpectLineRefused("{\"text\": \"ab\", \"prompt\": \"abc\"}", "does not begin with its \"prompt\"");
  ExpectLineRefused("{\"text\": \"a\"}", "2 tokens or more");
  ExpectLineRefused(std::string(1000000, '['), "not valid JSON");
}

TEST_F(EvalTexts, FilesThatAreNoTextAreRefusedByName) {
  const std::string latin = WriteFile("latin.txt", "caf\xe9 au lait");
  ExpectRefused({latin}, {latin, "UTF-8"});
  const std::string empty = WriteFile("empty.txt", "");
  ExpectRefused({empty}, {empty, "2 tokens or more"});
  ExpectRefused({WriteFile("empty.jsonl", "")}, {"hold no document"});
  ExpectRefused({WriteFile("blank.jsonl", "\n \n\t\r\n")}, {"hold no document"});
  ExpectRefused({folder_.string()}, {folder_.string(), "is a directory"});
  ExpectRefused({"/no/such/file.txt"}, {"/no/such/file.txt", "No such file"});
  ExpectRefused({"/no/such/file.jsonl"}, {"/no/such/file.jsonl", "No such file"});
  // A good file beside it changes nothing.
  ExpectRefused({WriteFile("good.txt", "good text"), latin}, {latin});
}

TEST_F(EvalTexts, ADeviceWithoutEndIsRefused) {
  if (!std::filesystem::exists("/dev/zero")) GTEST_SKIP() << "no /dev/zero here";
  ExpectRefused({"/dev/zero"}, {"/dev/zero", "at most 268435456 bytes"});
}

TEST_F(EvalTexts, AllRanksGetRankZerosTexts) {
  const auto texts =
      ReadLines("{\"text\": \"abc\", \"id\": \"one\", \"kind\": \"k\", \"prompt\": \"a\"}\n{\"text\": \"xyz\"}\n");
  RunThreadRanks(3, [&](Communicator& communicator) {
    std::vector<EvalText> mine;
    if (communicator.rank() == 0) mine = texts;
    BroadcastEvalTexts(communicator, mine);
    ASSERT_EQ(mine.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(mine[i].id, texts[i].id);
      EXPECT_EQ(mine[i].kind, texts[i].kind);
      EXPECT_EQ(mine[i].tokens, texts[i].tokens);
      EXPECT_EQ(mine[i].prompt_tokens, texts[i].prompt_tokens);
    }
  });
}

}  // namespace
}  // namespace winnow
